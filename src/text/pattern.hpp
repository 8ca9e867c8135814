// Regular expressions as JSON Schema writes them, as far as they are regular: no look-around, no references back.
#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace lapidary::text {

struct CharacterSet {
  std::bitset<128> ascii;
  bool others = false;  // all characters beyond ASCII
};

// A tree; what it matches is a whole text.
struct Pattern {
  enum class Kind : std::uint8_t { set, letter, sequence, either, repeat };
  static constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();

  Kind kind = Kind::sequence;
  CharacterSet set{};                       // set: one of these characters
  std::string letter{};                     // letter: one character beyond ASCII, as UTF-8
  std::vector<Pattern> parts{};             // of a sequence, or the alternatives; repeat: one
  std::uint32_t least = 1, most = 1;        // repeat
};

// Where no ^ or $ is, anything may stand before or after. What cannot be read is named in `fault`, which is empty otherwise.
Pattern parse_pattern(std::string_view text, std::string& fault);

// Of a value of `format`: date, time, date-time, uuid, email, ipv4; empty for others.
std::string_view pattern_of_format(std::string_view format);

}  // namespace lapidary::text
