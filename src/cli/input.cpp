#include "cli/input.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "checkpoint/error.hpp"

namespace lapidary::cli {
namespace {

constexpr const char* kStandardInput = "standard input";

std::string name_of(const std::string& path) { return path == "-" ? kStandardInput : path; }

[[noreturn]] void fail_reading(const std::string& where) {
  fail(ErrorKind::io, where, std::string("cannot be read: ") + std::strerror(errno));
}

std::string read_all(std::FILE* file, const std::string& where, std::size_t most_bytes) {
  std::string text;
  char bytes[1 << 16];
  while (const std::size_t count = std::fread(bytes, 1, sizeof bytes, file)) {
    text.append(bytes, count);
    if (text.size() > most_bytes) fail(ErrorKind::io, where, "expected at most " + std::to_string(most_bytes) + " bytes, got more");
  }
  if (std::ferror(file)) fail_reading(where);
  return text;
}

}  // namespace

std::string read_input(const std::string& path, std::size_t most_bytes) {
  if (path == "-") {
    static bool was_read = false;
    if (was_read) fail(ErrorKind::usage, kStandardInput, "expected to be read once, got two that want it");
    was_read = true;
    return read_all(stdin, kStandardInput, most_bytes);
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) fail_reading(path);
  return read_all(file.get(), path, most_bytes);
}

text::Value read_json_input(const std::string& path) { return text::parse_json(read_input(path), name_of(path)); }

text::Value read_schema_input(const std::string& given, const std::string& where) {
  return given.starts_with('{') ? text::parse_json(given, where) : read_json_input(given);
}

}  // namespace lapidary::cli
