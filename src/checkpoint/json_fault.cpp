#include <algorithm>

#include "checkpoint/json.hpp"

namespace lapidary {

namespace {

constexpr int kMaxDepth = 1024;  // what the parser takes

// Goes through a text up to where it stops being JSON. The parser that reads it does not tell.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool document() {
    if (!value(0)) return false;
    skip_space();
    return at_ == text_.size();
  }
  std::size_t at() const { return at_; }

 private:
  bool value(int depth) {
    skip_space();
    if (depth > kMaxDepth) return false;
    switch (peek()) {
      case '{': return list('}', [&] { return key() && value(depth + 1); });
      case '[': return list(']', [&] { return value(depth + 1); });
      case '"': return string();
      case 't': return word("true");
      case 'f': return word("false");
      case 'n': return word("null");
      default: return number();
    }
  }

  template <class Item>
  bool list(char end, Item item) {
    ++at_;
    skip_space();
    if (take(end)) return true;
    while (item()) {
      skip_space();
      if (take(end)) return true;
      if (!take(',')) return false;
    }
    return false;
  }

  bool key() {
    skip_space();
    if (peek() != '"' || !string()) return false;
    skip_space();
    return take(':');
  }

  bool string() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (take('"')) return true;
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return false;
      if (text_[at_] != '\\') continue;
      ++at_;
      if (std::string_view("\"\\/bfnrtu").find(peek()) == std::string_view::npos) return false;
    }
    return false;
  }

  bool word(std::string_view word) {
    const bool found = text_.substr(at_).starts_with(word);
    if (found) at_ += word.size();
    return found;
  }

  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      return digits();
    }
    return true;
  }

  bool digits() {
    const std::size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > begin;
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string json_fault(std::string_view text, std::string_view error) {
  Scanner scanner(text);
  const std::string what = "expected JSON, got an error: " + std::string(error);
  if (scanner.document()) return what;  // letters that are none, numbers that are too large
  const std::string_view before = text.substr(0, scanner.at());
  const std::size_t line_begin = before.rfind('\n') + 1;
  const auto is_first_byte = [](char c) { return (c & 0xc0) != 0x80; };  // of a letter in UTF-8
  return "line " + std::to_string(std::ranges::count(before, '\n') + 1) + ", column " +
         std::to_string(std::ranges::count_if(before.substr(line_begin), is_first_byte) + 1) + ", " + what;
}

}  // namespace lapidary
