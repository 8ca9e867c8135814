// Where codes of fewer than 8 bits lie in a group of the file: least significant bits first, one after the other, so that eight fill as
// many bytes as they have bits. Files that are compiled for instructions of their own include this, so nothing here may have a name
// that the linker sees.
#pragma once

#include <algorithm>
#include <array>

#include "cpu/q8_format.hpp"

namespace lapidary::cpu {
namespace {

// Codes 16 Index to 16 Index + 15 of a group, as eight pairs: a pair lies within two bytes.
template <Codes codes, int Group, int Index>
struct Sixteen {
  static constexpr int kBits = bits_of(codes), kGroupBytes = Group * kBits / 8;
  static constexpr int kBytes = std::min(16, kGroupBytes);                           // loaded at once, none of another group
  static constexpr int kFirst = std::min(2 * kBits * Index, kGroupBytes - kBytes);  // the first of them

  struct Pairs {
    std::array<std::uint8_t, 16> bytes{};   // [8, 2], of those loaded
    std::array<std::int16_t, 8> offsets{};  // the first bit in the two bytes
  };
  static constexpr Pairs pairs = [] {
    Pairs all;
    for (int pair = 0; pair < 8; ++pair) {
      const int bit = (16 * Index + 2 * pair) * kBits - 8 * kFirst, byte = bit / 8;
      all.bytes[2 * pair] = static_cast<std::uint8_t>(byte);
      all.bytes[2 * pair + 1] = static_cast<std::uint8_t>(std::min(byte + 1, kBytes - 1));  // the last pair may need one only
      all.offsets[pair] = static_cast<std::int16_t>(bit % 8);
    }
    return all;
  }();
  static_assert(2 * kBits <= 12);
};

// Calls f.operator()<Index>() for each 16 codes of a group.
template <int Group, class F, int Index = 0>
LAPIDARY_INLINE void for_each_sixteen(F f) {
  f.template operator()<Index>();
  if constexpr (16 * (Index + 1) < Group) for_each_sixteen<Group, F, Index + 1>(f);
}

}  // namespace
}  // namespace lapidary::cpu
