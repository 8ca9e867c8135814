#include "text/whitespace.hpp"

namespace lapidary::text {

namespace {

// Is this, as a whole, one character of white space?
bool is_whitespace(std::string_view c) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(c[i]); };
  switch (c.size()) {
    case 1: return (byte(0) >= 0x09 && byte(0) <= 0x0d) || (byte(0) >= 0x1c && byte(0) <= 0x20);
    case 2: return c == "\u0085" || c == "\u00a0";
    case 3:
      return (c >= "\u2000" && c <= "\u200a") || c == "\u1680" || c == "\u2028" || c == "\u2029" || c == "\u202f" ||
             c == "\u205f" || c == "\u3000";
    default: return false;
  }
}

}  // namespace

std::size_t whitespace_at_front(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t length = 1; length <= 3 && end + length <= text.size();) {
    if (is_whitespace(text.substr(end, length))) {
      end += length;
      length = 1;
    } else {
      ++length;
    }
  }
  return end;
}

std::size_t whitespace_at_back(std::string_view text) {
  std::size_t begin = text.size();
  for (std::size_t length = 1; length <= 3 && length <= begin;) {
    if (is_whitespace(text.substr(begin - length, length))) {
      begin -= length;
      length = 1;
    } else {
      ++length;
    }
  }
  return text.size() - begin;
}

std::string_view strip(std::string_view text) {
  text.remove_prefix(whitespace_at_front(text));
  text.remove_suffix(whitespace_at_back(text));
  return text;
}

}  // namespace lapidary::text
