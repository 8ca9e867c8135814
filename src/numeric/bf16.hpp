// bfloat16, the upper half of a float32.
#pragma once

#include <bit>
#include <cstdint>

namespace lapidary::numeric {

[[gnu::always_inline]] inline float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// To the nearest, ties to even; what is not a number stays so.
[[gnu::always_inline]] inline std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace lapidary::numeric
