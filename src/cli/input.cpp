#include "cli/input.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "checkpoint/error.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::cli {
namespace {

constexpr const char* kStandardInput = "standard input";

std::string name_of(const std::string& path) { return path == "-" ? kStandardInput : path; }

[[noreturn]] void fail_reading(const std::string& where) {
  fail(ErrorKind::io, where, std::string("cannot be read: ") + std::strerror(errno));
}

void check(const std::string& text, const std::string& where, const InputLimit& limit) {
  if (text.size() > limit.bytes)
    fail(ErrorKind::io, where, "expected at most " + std::to_string(limit.bytes) + " bytes" + limit.reason + ", got more");
}

std::string read_all(std::FILE* file, const std::string& where, const InputLimit& limit) {
  std::string text;
  char bytes[1 << 16];
  while (const std::size_t count = std::fread(bytes, 1, sizeof bytes, file)) {
    text.append(bytes, count);
    check(text, where, limit);
  }
  if (std::ferror(file)) fail_reading(where);
  return text;
}

}  // namespace

InputLimit text_limit(std::int32_t context_tokens) {
  return {text::kMaxPieceBytes * static_cast<std::size_t>(context_tokens),
          ", as no text of " + std::to_string(context_tokens) + " tokens, the context, is longer"};
}

InputLimit json_limit(std::int32_t context_tokens) {
  constexpr std::size_t kMaxEscapeBytes = 6;  // \u0041 for one
  InputLimit limit = text_limit(context_tokens);
  limit.bytes *= kMaxEscapeBytes;
  return limit;
}

std::string read_input(const std::string& path, const InputLimit& limit) {
  if (path == "-") {
    static bool was_read = false;
    if (was_read) fail(ErrorKind::usage, kStandardInput, "expected to be read once, got two that want it");
    was_read = true;
    return read_all(stdin, kStandardInput, limit);
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) fail_reading(path);
  return read_all(file.get(), path, limit);
}

std::optional<std::string> read_line(const InputLimit& limit) {
  std::string line;
  for (int byte; (byte = std::getc(stdin)) != '\n'; check(line, kStandardInput, limit)) {
    if (byte != EOF) line += static_cast<char>(byte);
    else if (line.empty()) return std::nullopt;
    else break;
  }
  return line;
}

text::Value read_json_input(const std::string& path, const InputLimit& limit) {
  return text::parse_json(read_input(path, limit), name_of(path));
}

text::Value read_schema_input(const std::string& given, const std::string& where) {
  return given.starts_with('{') ? text::parse_json(given, where) : read_json_input(given);
}

}  // namespace lapidary::cli
