// Codes out of their bytes on Arm. Each file that includes this is compiled for instructions of its own, so nothing here may have a
// name that the linker sees.
#pragma once

#include <arm_neon.h>

#include <array>
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
constexpr std::int8_t kE2m1Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
LAPIDARY_INLINE int8x16_t value_of_e2m1(uint8x16_t codes) { return vqtbl1q_s8(vld1q_s8(kE2m1Values), codes); }

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

// The activations of a group of one row, in the order in which codes come out of their bytes with the least work: as they are.
// Dot: add(sum, a, b) adds products of 16 signed bytes to four sums.
template <class Dot, Codes codes, int Group>
struct RowGroup {
  int8x16_t u[Group / 16];

  LAPIDARY_INLINE explicit RowGroup(const std::int8_t* q) {
    for (int i = 0; i < Group / 16; ++i) u[i] = vld1q_s8(q + 16 * i);
  }
  // Adds the products with the group of a weight row.
  LAPIDARY_INLINE int32x4_t add(int32x4_t sum, const std::uint8_t* group) const {
    int8x16_t c[Group / 16];
    load_codes<codes, Group>(group, c);
    for (int i = 0; i < Group / 16; ++i) sum = Dot::add(sum, c[i], u[i]);
    return sum;
  }
};

// The codes of a byte come apart: even and odd ones.
template <class Dot>
struct RowGroup<Dot, Codes::e2m1, 32> {
  int8x16_t even, odd;

  LAPIDARY_INLINE explicit RowGroup(const std::int8_t* q) {
    const int8x16_t first = vld1q_s8(q), second = vld1q_s8(q + 16);
    even = vuzp1q_s8(first, second);
    odd = vuzp2q_s8(first, second);
  }
  LAPIDARY_INLINE int32x4_t add(int32x4_t sum, const std::uint8_t* group) const {
    const uint8x16_t bytes = vld1q_u8(group);
    sum = Dot::add(sum, value_of_e2m1(vandq_u8(bytes, vdupq_n_u8(15))), even);
    return Dot::add(sum, value_of_e2m1(vshrq_n_u8(bytes, 4)), odd);
  }
};

// Four codes of 6 bits fill three bytes: 6 bits and 2 of the next code, 4 and 4, 2 and 6. So each byte is taken apart into two numbers
// below 64 that are multiplied by the activations of their codes: its low bits where they lie in their code, its high bits.
struct SixBits {
  using Bytes = std::array<std::array<std::uint8_t, 16>, 3>;
  Bytes up{}, down{};   // down: negative
  Bytes low{}, high{};  // which activations, of the 32 from 16 i on

  constexpr SixBits() {
    for (int i = 0; i < 3; ++i)
      for (int lane = 0; lane < 16; ++lane) {
        const int byte = 16 * i + lane, part = byte % 3, code = byte / 3 * 4 + part - 16 * i;
        up[i][lane] = static_cast<std::uint8_t>(2 * part);
        down[i][lane] = static_cast<std::uint8_t>(2 * part - 6);
        low[i][lane] = static_cast<std::uint8_t>(code);
        high[i][lane] = static_cast<std::uint8_t>(code + 1);
      }
  }
};
constexpr SixBits kSixBits;

template <class Dot, int Group>
  requires(Group >= 64)
struct RowGroup<Dot, Codes::u6, Group> {
  static constexpr int kBlocks = Group / 64;  // of 48 bytes
  int8x16_t low[kBlocks][3], high[kBlocks][3];

  LAPIDARY_INLINE explicit RowGroup(const std::int8_t* q) {
    for (int block = 0; block < kBlocks; ++block)
      for (int i = 0; i < 3; ++i) {
        const int8x16x2_t u = {vld1q_s8(q + 64 * block + 16 * i), vld1q_s8(q + 64 * block + 16 * i + 16)};
        low[block][i] = vqtbl2q_s8(u, vld1q_u8(kSixBits.low[i].data()));
        high[block][i] = vqtbl2q_s8(u, vld1q_u8(kSixBits.high[i].data()));
      }
  }
  LAPIDARY_INLINE int32x4_t add(int32x4_t sum, const std::uint8_t* group) const {
    for (int block = 0; block < kBlocks; ++block)
      for (int i = 0; i < 3; ++i) {
        const auto shifts = [&](const SixBits::Bytes& by) { return vreinterpretq_s8_u8(vld1q_u8(by[i].data())); };
        const uint8x16_t bytes = vld1q_u8(group + 48 * block + 16 * i);
        const uint8x16_t first = vandq_u8(vshlq_u8(bytes, shifts(kSixBits.up)), vdupq_n_u8(63));
        sum = Dot::add(sum, vreinterpretq_s8_u8(first), low[block][i]);
        sum = Dot::add(sum, vreinterpretq_s8_u8(vshlq_u8(bytes, shifts(kSixBits.down))), high[block][i]);
      }
    return sum;
  }
};

}  // namespace
}  // namespace lapidary::cpu
