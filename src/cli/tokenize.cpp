// lapidary tokenize: text to token ids, and back.
#include <charconv>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/model.hpp"
#include "text/detokenizer.hpp"
#include "text/tokenizer.hpp"
#include "text/value.hpp"

namespace lapidary::cli {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

struct TokenizeFlags {
  std::string model;
  std::string text;
  CLI::Option* text_given = nullptr;
  std::string file = "-";
  bool json = false;
  bool decode = false;
  bool no_special = false;
  bool time = false;
};

using engine::Clock;
using engine::seconds_since;

std::string read_text(const TokenizeFlags& flags) {
  return *flags.text_given ? flags.text : read_input(flags.file, {.bytes = kMaxTextBytes});
}

std::vector<std::int32_t> parse_ids(std::string_view text, std::int32_t size) {
  std::vector<std::int32_t> ids;
  constexpr std::string_view kSpaces = " \t\r\n";
  for (std::size_t at = 0; (at = text.find_first_not_of(kSpaces, at)) != text.npos;) {
    const std::string_view word = text.substr(at, text.find_first_of(kSpaces, at) - at);
    std::int32_t id = -1;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc{} || rest != word.data() + word.size() || id < 0 || id >= size) {
      fail(ErrorKind::usage, "tokenize --decode",
           "expected token ids from 0 to " + std::to_string(size - 1) + ", got '" + std::string(word.substr(0, 40)) + "'");
    }
    ids.push_back(id);
    at += word.size();
  }
  return ids;
}

// A byte token by its name: alone, its byte is no text.
std::string piece_name(const text::Tokenizer& tokenizer, std::int32_t id) {
  const std::string_view bytes = tokenizer.bytes(id);
  if (tokenizer.kind(id) != text::PieceKind::byte) return std::string(bytes);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(bytes[0]);
  return std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">";
}

void print_ids(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, bool json) {
  if (json) {
    text::Value::Array numbers, pieces;
    for (const std::int32_t id : ids) {
      numbers.push_back(id);
      pieces.push_back(piece_name(tokenizer, id));
    }
    std::cout << text::to_json(text::Value::Object{{"ids", std::move(numbers)}, {"pieces", std::move(pieces)}}) << "\n";
    return;
  }
  const char* separator = "";
  for (const std::int32_t id : ids) {
    std::cout << separator << id;
    separator = " ";
  }
  std::cout << "\n";
}

void print_text(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, bool with_specials) {
  text::Detokenizer detokenizer(tokenizer, with_specials);
  for (const std::int32_t id : ids) std::cout << detokenizer.push(id);
  std::cout << detokenizer.finish();
}

void run(const TokenizeFlags& flags) {
  const std::string input = read_text(flags);
  Clock::time_point start = Clock::now();
  const text::Tokenizer tokenizer = engine::open_tokenizer(folder_of(flags.model));
  const double load_seconds = seconds_since(start);
  if (flags.decode) {
    print_text(tokenizer, parse_ids(input, tokenizer.size()), !flags.no_special);
    return;
  }
  start = Clock::now();
  const auto ids = tokenizer.encode(input, flags.no_special ? text::Specials::as_text : text::Specials::recognise);
  const double encode_seconds = seconds_since(start);
  print_ids(tokenizer, ids, flags.json);
  if (flags.time) {
    std::cerr << text::to_json(text::Value::Object{{"load_s", load_seconds}, {"encode_s", encode_seconds},
                                                   {"bytes", static_cast<std::int64_t>(input.size())},
                                                   {"tokens", static_cast<std::int64_t>(ids.size())}})
              << "\n";
  }
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Turn text into token ids, or token ids into text");
  const auto flags = std::make_shared<TokenizeFlags>();
  add_path(*command, "-m,--model", flags->model, "DIR", "folder with tokenizer.json or tokenizer.model (default: pebble)");
  flags->text_given = command->add_option("TEXT", flags->text, "what to read (default: standard input)");
  add_path(*command, "-f,--file", flags->file, "FILE", "read this file; '-': standard input")->excludes(flags->text_given);
  CLI::Option* decode = command->add_flag("--decode", flags->decode, "read ids separated by spaces and print their text");
  command->add_flag("--json", flags->json, "print ids and pieces as JSON")->excludes(decode);
  command->add_flag("--no-special", flags->no_special, "treat names of special tokens as text; with --decode: leave them out");
  command->add_flag("--time", flags->time, "print the seconds it took to stderr")->excludes(decode);
  command->callback([flags] { run(*flags); });
}

}  // namespace lapidary::cli
