// The products of q8.hpp on Arm from products of signed bytes, as processors without i8mm have them. Each file that includes this is
// compiled for instructions of its own, so nothing here may have a name that the linker sees.
//
// A byte of weights w is unsigned: w ^ 0x80 is w - 128 as a signed one, and 128 times the sum of u makes up for it. For 4 bits
//   dot = sum (w - 128) u + 16 sum lo v + 128 sum u.
// With one activation row lo is w & 15 and its products wait in sums of their own until four rows have come together. With more,
// 16 lo - 128 takes the place of lo, once for all rows, and the products meet in one sum.
#pragma once

#include "cpu/q8_arm.hpp"

namespace lapidary::cpu {
namespace {

LAPIDARY_INLINE int8x16_t minus_128(uint8x16_t w) { return vreinterpretq_s8_u8(veorq_u8(w, vdupq_n_u8(0x80))); }
LAPIDARY_INLINE int8x16_t low_of(uint8x16_t w) { return vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15))); }

// Factors of a row and group: what makes up for unsigned weights, for each of the four rows of a step; a, a * sum.
struct SignedFactors {
  std::int32_t offset[4];
  float a, a_sum, unused[2];
};
static_assert(sizeof(SignedFactors) == 8 * sizeof(float));

// q: [groups, rows, Group]; factors: [groups, rows] of SignedFactors
template <bool Paired, int Group>
LAPIDARY_INLINE void quantise_signed(const float* const* x, const Q8Tile& tile, Range groups) {
  // One row takes lo as it is, more take 16 lo - 128.
  const bool low_is_offset = Paired && tile.rows > 1;
  for (int r = 0; r < tile.rows; ++r)
    for (int begin = groups.begin; begin < groups.end; begin += kSteps) {
      const int count = std::min(kSteps, groups.end - begin);
      Step8 steps[kSteps];
      find_steps<Paired, Group>(x[r] + begin * Group, count, steps);
      for (int g = begin; g < begin + count; ++g) {
        const QuantisedGroup<Group> group = quantise_group<Paired, Group>(x[r] + g * Group, steps[g - begin]);
        const std::size_t at = static_cast<std::size_t>(g) * tile.rows + r;
        for (int i = 0; i < Group / 16; ++i) vst1q_s8(tile.q + at * Group + 16 * i, group.q[i]);
        const std::int32_t offset = 128 * (group.u_sum + (low_is_offset ? group.v_sum : 0));
        auto& factors = reinterpret_cast<SignedFactors*>(tile.factors)[at];
        vst1q_s32(factors.offset, vdupq_n_s32(offset));
        factors.a = group.a;
        factors.a_sum = group.a_sum;
      }
    }
}

// Scales and biases of a group, for the four rows of a step. Without biases a word is its scale.
template <bool Biases = true>
struct Scales {
  float32x4_t scale, bias;
  LAPIDARY_INLINE explicit Scales(const std::uint32_t* at) {
    const uint32x4_t words = vld1q_u32(at);
    scale = vreinterpretq_f32_u32(Biases ? vandq_u32(words, vdupq_n_u32(0xffff0000u)) : words);
    bias = vreinterpretq_f32_u32(vshlq_n_u32(words, 16));
  }
  LAPIDARY_INLINE float32x4_t add_to(float32x4_t sums, int32x4_t dots, const SignedFactors& factors) const {
    const float32x2_t f = vld1_f32(&factors.a);
    sums = vfmaq_f32(sums, vcvtq_f32_s32(dots), vmulq_lane_f32(scale, f, 0));
    return Biases ? vfmaq_lane_f32(sums, bias, f, 1) : sums;
  }
};

LAPIDARY_INLINE int32x4_t sum_of_each(const int32x4_t* d) { return vpaddq_s32(vpaddq_s32(d[0], d[1]), vpaddq_s32(d[2], d[3])); }

// The four rows of a step lie one after the other, so that the memory is asked for what lies ahead as one stream.
class OneStream {
 public:
  OneStream(const Q8Weights& w, const Streams& streams) : at_(streams.at[0] + (kStreams - 1) * w.row_bytes + kAheadBytes) {}

  // For a group of kBytes in each row.
  template <int kBytes>
  LAPIDARY_INLINE void fetch(int g, const std::uint32_t* scales) const {
    constexpr int kStepBytes = kStreams * kBytes;
    for (int line = 0; line < kStepBytes; line += 64) asm volatile("prfm pldl1keep, [%0]" : : "r"(at_ + g * kStepBytes + line));
    if (g % 4 == 0) asm volatile("prfm pldl1keep, [%0, #512]" : : "r"(scales + g * kStreams));
  }

 private:
  static constexpr int kAheadBytes = 1024;
  const std::uint8_t* at_;
};

// One activation row. Dot: add(sum, a, b) adds products of 16 signed bytes to four sums.
template <class Dot, int Bits, int Group>
void multiply_row(const Q8Weights& w, const Q8Tile& tile, float* y, Range steps) {
  constexpr int kGroupBytes = Group * Bits / 8, kVectors = kGroupBytes / 16;
  const int groups = w.cols / Group;
  const auto* const factors = reinterpret_cast<const SignedFactors*>(tile.factors);
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    const OneStream ahead(w, streams);
    const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
    float32x4_t sums = vdupq_n_f32(0.0f);
    for (int g = 0; g < groups; ++g) {
      ahead.fetch<kGroupBytes>(g, scales);
      int8x16_t q[Group / 16];
      for (int i = 0; i < Group / 16; ++i) q[i] = vld1q_s8(tile.q + g * Group + 16 * i);
      int32x4_t whole[kStreams], low[kStreams];
#pragma GCC unroll 4
      for (int i = 0; i < kStreams; ++i) {
        whole[i] = low[i] = vdupq_n_s32(0);
        for (int j = 0; j < kVectors; ++j) {
          const uint8x16_t bytes = vld1q_u8(streams.at[i] + g * kGroupBytes + 16 * j);
          whole[i] = Dot::add(whole[i], minus_128(bytes), q[j]);
          if constexpr (Bits == 4) low[i] = Dot::add(low[i], low_of(bytes), q[kVectors + j]);
        }
      }
      int32x4_t dots = vaddq_s32(sum_of_each(whole), vld1q_s32(factors[g].offset));
      if constexpr (Bits == 4) dots = vmlaq_n_s32(dots, sum_of_each(low), 16);
      sums = Scales<>(scales + g * kStreams).add_to(sums, dots, factors[g]);
    }
    float lanes[kStreams];
    vst1q_f32(lanes, sums);
    streams.store(lanes, w.rows, y);
  }
}

// Several activation rows, each with all weights of a group.
template <class Dot, int Bits, int Group, int Rows>
void multiply_rows(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  constexpr int kGroupBytes = Group * Bits / 8, kVectors = kGroupBytes / 16;
  const int groups = w.cols / Group;
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    const OneStream ahead(w, streams);
    const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
    const std::int8_t* q = tile.q;
    const auto* factors = reinterpret_cast<const SignedFactors*>(tile.factors);
    float32x4_t sums[Rows];
    for (float32x4_t& sum : sums) sum = vdupq_n_f32(0.0f);
    for (int g = 0; g < groups; ++g, q += Rows * Group, factors += Rows) {
      ahead.fetch<kGroupBytes>(g, scales);
      int32x4_t d[Rows][kStreams];
      for (auto& row : d)
        for (int32x4_t& sum : row) sum = vdupq_n_s32(0);
#pragma GCC unroll 4
      for (int i = 0; i < kStreams; ++i)
        for (int j = 0; j < kVectors; ++j) {
          const uint8x16_t bytes = vld1q_u8(streams.at[i] + g * kGroupBytes + 16 * j);
          const int8x16_t whole = minus_128(bytes), low = minus_128(vshlq_n_u8(bytes, 4));
          for (int r = 0; r < Rows; ++r) {
            d[r][i] = Dot::add(d[r][i], whole, vld1q_s8(q + r * Group + 16 * j));
            if constexpr (Bits == 4) d[r][i] = Dot::add(d[r][i], low, vld1q_s8(q + r * Group + Group / 2 + 16 * j));
          }
        }
      const Scales<> of_group(scales + g * kStreams);
      for (int r = 0; r < Rows; ++r)
        sums[r] = of_group.add_to(sums[r], vaddq_s32(sum_of_each(d[r]), vld1q_s32(factors[r].offset)), factors[r]);
    }
    for (int r = 0; r < Rows; ++r) {
      float lanes[kStreams];
      vst1q_f32(lanes, sums[r]);
      streams.store(lanes, w.rows, y[r]);
    }
  }
}

}  // namespace
}  // namespace lapidary::cpu
