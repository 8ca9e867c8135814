// What the user hands in: files, pipes and standard input alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "text/value.hpp"

namespace lapidary::cli {

// Input without an end must not take all memory.
struct InputLimit {
  std::size_t bytes = std::size_t{64} << 20;
  std::string reason{};  // "as ..."
};
// Of what goes into a prompt: a text, or JSON with texts. More does not fit, whatever it is.
InputLimit text_limit(std::int32_t context_tokens);
InputLimit json_limit(std::int32_t context_tokens);

// All of a file; '-' is standard input, which can be read once.
std::string read_input(const std::string& path, const InputLimit& limit = {});
// The next line of standard input; nothing at its end.
std::optional<std::string> read_line(const InputLimit& limit);
text::Value read_json_input(const std::string& path, const InputLimit& limit = {});
// A schema as it stands, or the file with it. `where`: who asks.
text::Value read_schema_input(const std::string& given, const std::string& where);

}  // namespace lapidary::cli
