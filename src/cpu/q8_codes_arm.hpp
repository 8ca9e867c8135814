// Codes out of their bytes on Arm. Each file that includes this is compiled for instructions of its own, so nothing here may have a
// name that the linker sees.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "cpu/q8_codes.hpp"

namespace lapidary::cpu {
namespace {

// The first kBytes of 16.
template <int kBytes>
LAPIDARY_INLINE uint8x16_t load_first(const std::uint8_t* from) {
  if constexpr (kBytes == 16) return vld1q_u8(from);
  else if constexpr (kBytes == 8) return vcombine_u8(vld1_u8(from), vdup_n_u8(0));
  else {
    static_assert(kBytes == 12);
    std::uint32_t last;
    std::memcpy(&last, from + 8, sizeof last);
    return vreinterpretq_u8_u32(vsetq_lane_u32(last, vreinterpretq_u32_u8(vcombine_u8(vld1_u8(from), vdup_n_u8(0))), 2));
  }
}

// Twice the value of each.
LAPIDARY_INLINE int8x16_t value_of_e2m1(uint8x16_t codes) {
  const int8x16_t values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return vqtbl1q_s8(values, codes);
}

// c: [Group / 16]
template <Codes codes, int Group>
LAPIDARY_INLINE void load_codes(const std::uint8_t* group, int8x16_t* c) {
  if constexpr (codes == Codes::e2m1) {
    const uint8x16_t bytes = load_first<Group / 2>(group);
    const uint8x16_t low = vandq_u8(bytes, vdupq_n_u8(15)), high = vshrq_n_u8(bytes, 4);
    c[0] = value_of_e2m1(vzip1q_u8(low, high));
    if constexpr (Group == 32) c[1] = value_of_e2m1(vzip2q_u8(low, high));
  } else {
    constexpr int kBits = bits_of(codes);
    for_each_sixteen<Group>([&]<int Index>() __attribute__((always_inline)) {
      using Place = Sixteen<codes, Group, Index>;
      const int16x8_t down = vnegq_s16(vld1q_s16(Place::pairs.offsets.data()));
      const uint8x16_t bytes = vqtbl1q_u8(load_first<Place::kBytes>(group + Place::kFirst), vld1q_u8(Place::pairs.bytes.data()));
      const uint16x8_t first = vshlq_u16(vreinterpretq_u16_u8(bytes), down), second = vshlq_n_u16(first, 8 - kBits);
      const uint8x16_t both = vreinterpretq_u8_u16(vbslq_u16(vdupq_n_u16(0xff), first, second));
      c[Index] = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8((1 << kBits) - 1)));
    });
  }
}

}  // namespace
}  // namespace lapidary::cpu
