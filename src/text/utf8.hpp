// One step through bytes that may or may not be UTF-8.
#pragma once

#include <cstdint>
#include <string_view>

namespace lapidary::text {

enum class Utf8 : std::uint8_t {
  whole,   // a character
  broken,  // bytes that cannot be part of one
  cut,     // the text ends, but may go on to be one
};

struct Utf8Step {
  Utf8 state;
  std::uint8_t bytes;  // of the character, or of the longest beginning of one where it is broken or cut; at least 1
  char32_t scalar;     // of a whole character
};

// What `text`, which is not empty, begins with.
inline Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8::whole, 1, lead};
  if (lead < 0xc2 || lead > 0xf4) return {Utf8::broken, 1, 0};
  const std::uint8_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  char32_t scalar = lead & (0x7fu >> length);
  for (std::uint8_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8::cut, i, 0};
    // The second byte also rules out overlong forms, surrogates and what lies above U+10FFFF.
    unsigned char least = 0x80, most = 0xbf;
    if (i == 1 && lead == 0xe0) least = 0xa0;
    if (i == 1 && lead == 0xed) most = 0x9f;
    if (i == 1 && lead == 0xf0) least = 0x90;
    if (i == 1 && lead == 0xf4) most = 0x8f;
    if (byte(i) < least || byte(i) > most) return {Utf8::broken, i, 0};
    scalar = scalar << 6 | (byte(i) & 0x3fu);
  }
  return {Utf8::whole, length, scalar};
}

inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.state != Utf8::whole) return false;
    text.remove_prefix(step.bytes);
  }
  return true;
}

}  // namespace lapidary::text
