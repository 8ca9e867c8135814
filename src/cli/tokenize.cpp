// lapidary tokenize: text to token ids, and back.
#include <charconv>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/media.hpp"
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
  MediaFlags media;
  std::int32_t image_tokens = 0;  // 0 = the model's own
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

// Places of soft tokens count as one: 258880*64.
void print_ids(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, const std::vector<engine::SoftRun>& runs, bool json) {
  if (json) {
    text::Value::Array numbers, pieces;
    for (const std::int32_t id : ids) {
      numbers.push_back(id);
      pieces.push_back(piece_name(tokenizer, id));
    }
    text::Value::Object all{{"ids", std::move(numbers)}, {"pieces", std::move(pieces)}};
    text::Value::Array blocks;
    for (const engine::SoftRun& run : runs)
      blocks.push_back(text::Value::Object{{"kind", run.sense == graph::Sense::vision ? "image" : "audio"}, {"begin", run.begin}, {"end", run.end}});
    if (!blocks.empty()) all.emplace_back("blocks", std::move(blocks));
    std::cout << text::to_json(all) << "\n";
    return;
  }
  const char* separator = "";
  auto run = runs.begin();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::cout << separator << ids[i];
    separator = " ";
    if (run == runs.end() || static_cast<std::size_t>(run->begin) != i) continue;
    std::cout << "*" << run->end - run->begin;
    i = static_cast<std::size_t>((run++)->end) - 1;
  }
  std::cout << "\n";
}

void print_text(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, bool with_specials) {
  text::Detokenizer detokenizer(tokenizer, with_specials);
  for (const std::int32_t id : ids) std::cout << detokenizer.push(id);
  std::cout << detokenizer.finish();
}

// The text and, where the files go, the places of their soft tokens. Of the model only its shape is wanted.
std::vector<text::Span> with_blocks(const std::string& text, text::Specials specials, const TokenizeFlags& flags) {
  MediaReader reader;
  const text::Value message = text::Value::Object{{"role", "user"}, {"content", text}};
  const MediaMessages asked = read_media(text::Value::Array{message}, flags.media, reader);
  const std::string folder = folder_of(flags.model);
  const link::Program program = engine::open_program({.folder = folder, .link = {.backend = link::backends().front()}, .draft = {.drafters = {}, .kind = engine::DraftKind::none, .tokens = {}}});
  const std::int32_t image_tokens = flags.image_tokens ? flags.image_tokens : engine::image_budget(folder);
  std::vector<text::Span> spans;
  auto file = asked.media.begin();
  for (const text::Value& part : *asked.messages.array()->front().find("content")->array()) {
    if (const text::Value* words = part.find("text")) spans.push_back({*words->string(), specials});
    else spans.push_back({text::expansion(medium_of(**file++, *program.graph, image_tokens).announced()), text::Specials::recognise});
  }
  return spans;
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
  const text::Specials specials = flags.no_special ? text::Specials::as_text : text::Specials::recognise;
  const std::vector<text::Span> spans = flags.media.any() ? with_blocks(input, specials, flags) : std::vector<text::Span>();
  start = Clock::now();
  const auto ids = spans.empty() ? tokenizer.encode(input, specials) : tokenizer.encode(spans);
  const double encode_seconds = seconds_since(start);
  print_ids(tokenizer, ids, flags.media.any() ? engine::soft_runs(ids, engine::SoftIds::of(tokenizer)) : std::vector<engine::SoftRun>(), flags.json);
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
  constexpr MediaKind kKinds[] = {MediaKind::image, MediaKind::audio};
  flags->media.add_to(*command, kKinds);
  add_image_tokens(*command, flags->image_tokens);
  for (const MediaKind kind : kKinds) decode->excludes(command->get_option(flag_of(kind)));
  command->add_flag("--json", flags->json, "print ids and pieces as JSON")->excludes(decode);
  command->add_flag("--no-special", flags->no_special, "treat names of special tokens as text; with --decode: leave them out");
  command->add_flag("--time", flags->time, "print the seconds it took to stderr")->excludes(decode);
  command->callback([flags] { run(*flags); });
}

}  // namespace lapidary::cli
