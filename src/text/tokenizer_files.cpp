// The readers of a tokenizer's files. Apart from what encodes, so that a program which never reads one is linked without them.
#include <filesystem>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/error.hpp"
#include "text/tokenizer_tables.hpp"

namespace lapidary::text {

Tokenizer Tokenizer::open(const std::string& folder) {
  const std::string json = folder + "/tokenizer.json", model = folder + "/tokenizer.model";
  if (std::filesystem::exists(json)) return Tokenizer(read_tokenizer_json(read_text_file(json), json));
  if (std::filesystem::exists(model)) return Tokenizer(read_tokenizer_model(read_text_file(model), model));
  fail(ErrorKind::io, folder, "tokenizer, expected tokenizer.json or tokenizer.model, got neither");
}

bool Tokenizer::is_in(const std::string& folder) {
  return std::filesystem::exists(folder + "/tokenizer.json") || std::filesystem::exists(folder + "/tokenizer.model");
}

Tokenizer Tokenizer::parse(std::string_view json, std::string_view where) {
  return Tokenizer(read_tokenizer_json(json, where));
}

}  // namespace lapidary::text
