// The products of q8.hpp on Arm from products of signed bytes, as processors without i8mm have them. Each file that includes this is
// compiled for instructions of its own, so nothing here may have a name that the linker sees.
//
// A byte of weights w is unsigned: w ^ 0x80 is w - 128 as a signed one, and 128 times the sum of u makes up for it. For 4 bits
//   dot = sum (w - 128) u + 16 sum lo v + 128 sum u.
// With one activation row lo is w & 15 and its products wait in sums of their own until four rows have come together. With more,
// 16 lo - 128 takes the place of lo, once for all rows, and the products meet in one sum.
#pragma once

#include <bit>

#include "cpu/q8_arm.hpp"
#include "cpu/q8_in_order.hpp"

namespace lapidary::cpu {
namespace {

LAPIDARY_INLINE int8x16_t minus_128(uint8x16_t w) { return vreinterpretq_s8_u8(veorq_u8(w, vdupq_n_u8(0x80))); }
LAPIDARY_INLINE int8x16_t low_of(uint8x16_t w) { return vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15))); }

// An integer below 2^22 that is added to the bits of 1.5 * 2^23 gives that float plus the integer: a subtraction makes a float of it,
// where a conversion takes twice as long.
constexpr float kWhole = 12582912.0f;
static_assert(128 * 255 * 127 < 1 << 22);  // the largest dot, of 8 bits in groups of 128

// Factors of a row and group: what makes up for unsigned weights and the bits of kWhole, for each of the four rows of a step;
// a, a * sum.
struct SignedFactors {
  std::int32_t offset[4];
  float a, a_sum, unused[2];
};
static_assert(sizeof(SignedFactors) == 8 * sizeof(float));

// Quantises these groups of all rows. store(group, q) writes the bytes of a group to the tile and returns what makes up for unsigned
// weights. q: [groups, rows, Group]; factors: [groups, rows] of SignedFactors
template <bool Paired, int Group, class Store>
LAPIDARY_INLINE void quantise_with_offsets(const float* const* x, const Q8Tile& tile, Range groups, Store store) {
  for (int r = 0; r < tile.rows; ++r)
    for (int begin = groups.begin; begin < groups.end; begin += kSteps) {
      const int count = std::min(kSteps, groups.end - begin);
      Step8 steps[kSteps];
      find_steps<Paired, Group>(x[r] + begin * Group, count, steps);
      for (int g = begin; g < begin + count; ++g) {
        const QuantisedGroup<Group> group = quantise_group<Paired, Group>(x[r] + g * Group, steps[g - begin]);
        const std::size_t at = static_cast<std::size_t>(g) * tile.rows + r;
        const std::int32_t offset = store(group, tile.q + at * Group);
        auto& factors = reinterpret_cast<SignedFactors*>(tile.factors)[at];
        vst1q_s32(factors.offset, vdupq_n_s32(std::bit_cast<std::int32_t>(kWhole) + offset));
        factors.a = group.a;
        factors.a_sum = group.a_sum;
      }
    }
}

template <bool Paired, int Group>
LAPIDARY_INLINE void quantise_signed(const float* const* x, const Q8Tile& tile, Range groups) {
  // One row takes lo as it is, more take 16 lo - 128.
  const bool low_is_offset = Paired && tile.rows > 1;
  quantise_with_offsets<Paired, Group>(x, tile, groups, [&](const QuantisedGroup<Group>& group, std::int8_t* q) {
    for (int i = 0; i < Group / 16; ++i) vst1q_s8(q + 16 * i, group.q[i]);
    return 128 * (group.u_sum + (low_is_offset ? group.v_sum : 0));
  });
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
  // dots: with their offset. Sums stay in their registers, where the compiler would move those of eight rows around.
  LAPIDARY_INLINE float32x4_t add_to(float32x4_t sums, int32x4_t dots, const SignedFactors& factors) const {
    const float32x2_t f = vld1_f32(&factors.a);
    in_order::add_product(sums, vsubq_f32(vreinterpretq_f32_s32(dots), vdupq_n_f32(kWhole)), vmulq_lane_f32(scale, f, 0));
    if constexpr (Biases) in_order::add_product_by_second(sums, bias, f);
    return sums;
  }
};

LAPIDARY_INLINE int32x4_t sum_of_each(const int32x4_t* d) { return vpaddq_s32(vpaddq_s32(d[0], d[1]), vpaddq_s32(d[2], d[3])); }

// Weights that lie one after the other are fetched as one stream: into the first cache by as much as a step is long or a little more,
// into the second by so many bytes more.
inline constexpr int kNearAhead = 8192;

// Where a step reads. The core takes four instructions a cycle, and vector operations are two of them: addresses must not cost any.
// So several groups are taken by offsets that the compiler knows, and then all pointers move on.
template <int kGroupBytes, int kTileBytes, int kTileFactors, int kGroupWords = kStreams>
struct Cursor {
  const std::uint8_t* weights[kStreams];
  const std::uint8_t* weights_ahead;
  const std::uint32_t* scales;
  const std::int8_t* q;
  const SignedFactors* factors;

  // All rows are there when their step begins.
  Cursor(const Q8Weights& w, const Streams& streams, const Q8Tile& tile, int step)
      : weights_ahead(streams.at[0] + (kStreams - 1) * w.row_bytes + 1024),
        scales(w.scales + static_cast<std::size_t>(step) * (w.cols / w.format.group) * kGroupWords),
        q(tile.q),
        factors(reinterpret_cast<const SignedFactors*>(tile.factors)) {
    std::copy_n(streams.at, kStreams, weights);
  }

  // kNear: also into the second cache, where tiles of activations do not take turns at weights that are there already
  template <int kGroup, bool kNear = false>
  LAPIDARY_INLINE void fetch() const {
    constexpr int kBegin = kGroup * kStreams * kGroupBytes, kLines = kStreams * kGroupBytes / 64;
    if constexpr (kLines > 0) fetch_at<kBegin, kNear>(weights_ahead);
    if constexpr (kLines > 1) fetch_at<kBegin + 64, kNear>(weights_ahead);
    if constexpr (kLines > 2) fetch_at<kBegin + 128, kNear>(weights_ahead);
    if constexpr (kLines > 3) fetch_at<kBegin + 192, kNear>(weights_ahead);
    if constexpr (kGroup == 0) fetch_at<512, kNear>(scales);
  }

  template <int kGroups>
  LAPIDARY_INLINE void advance() {
    for (const std::uint8_t*& at : weights) at += kGroups * kGroupBytes;
    weights_ahead += kGroups * kStreams * kGroupBytes;
    scales += kGroups * kGroupWords;
    q += kGroups * kTileBytes;
    factors += kGroups * kTileFactors;
  }

  // Calls add.operator()<kGroup>(*this) for all groups, each so many after where the cursor stands. What works long on a group does
  // not gain by taking several: the program is only larger for it.
  template <bool kSeveral, class Add>
  LAPIDARY_INLINE void for_each_group(int groups, Add add) {
    for (; kSeveral && groups >= 4; groups -= 4) {
      add.template operator()<0>(*this);
      add.template operator()<1>(*this);
      add.template operator()<2>(*this);
      add.template operator()<3>(*this);
      advance<4>();
    }
    for (; groups > 0; --groups) {
      add.template operator()<0>(*this);
      advance<1>();
    }
  }

 private:
  template <int kOffset, bool kNear>
  LAPIDARY_INLINE static void fetch_at(const void* at) {
    asm volatile("prfm pldl1keep, [%0, %1]" : : "r"(at), "n"(kOffset));
    if constexpr (kNear) asm volatile("prfm pldl2keep, [%0, %1]" : : "r"(at), "n"(kOffset + kNearAhead));
  }
};

// One activation row. Dot: add(sum, a, b) adds products of 16 signed bytes to four sums.
template <class Dot, int Bits, int Group>
void multiply_row(const Q8Weights& w, const Q8Tile& tile, float* y, Range steps) {
  constexpr int kGroupBytes = Group * Bits / 8, kVectors = kGroupBytes / 16;
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    Cursor<kGroupBytes, Group, 1> cursor(w, streams, tile, step);
    float32x4_t sums = vdupq_n_f32(0.0f);
    cursor.template for_each_group<true>(w.cols / Group, [&]<int kGroup>(const auto& at) __attribute__((always_inline)) {
      at.template fetch<kGroup, true>();
      int8x16_t q[Group / 16];
      for (int i = 0; i < Group / 16; ++i) q[i] = vld1q_s8(at.q + kGroup * Group + 16 * i);
      int32x4_t whole[kStreams], low[kStreams];
#pragma GCC unroll 4
      for (int i = 0; i < kStreams; ++i) {
        whole[i] = low[i] = vdupq_n_s32(0);
        for (int j = 0; j < kVectors; ++j) {
          const uint8x16_t bytes = vld1q_u8(at.weights[i] + kGroup * kGroupBytes + 16 * j);
          whole[i] = Dot::add(whole[i], minus_128(bytes), q[j]);
          if constexpr (Bits == 4) low[i] = Dot::add(low[i], low_of(bytes), q[kVectors + j]);
        }
      }
      int32x4_t dots = vaddq_s32(sum_of_each(whole), vld1q_s32(at.factors[kGroup].offset));
      if constexpr (Bits == 4) dots = vaddq_s32(dots, vshlq_n_s32(sum_of_each(low), 4));
      sums = Scales<>(at.scales + kGroup * kStreams).add_to(sums, dots, at.factors[kGroup]);
    });
    float lanes[kStreams];
    vst1q_f32(lanes, sums);
    streams.store(lanes, w.rows, y);
  }
}

// Several activation rows, each with all weights of a group.
template <class Dot, int Bits, int Group, int Rows>
void multiply_rows(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  constexpr int kGroupBytes = Group * Bits / 8, kVectors = kGroupBytes / 16;
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    Cursor<kGroupBytes, Rows * Group, Rows> cursor(w, streams, tile, step);
    float32x4_t sums[Rows];
    for (float32x4_t& sum : sums) sum = vdupq_n_f32(0.0f);
    cursor.template for_each_group<false>(w.cols / Group, [&]<int kGroup>(const auto& at) __attribute__((always_inline)) {
      at.template fetch<kGroup>();
      const std::int8_t* const q = at.q + kGroup * Rows * Group;
      int32x4_t d[Rows][kStreams];
      for (auto& row : d)
        for (int32x4_t& sum : row) sum = vdupq_n_s32(0);
#pragma GCC unroll 4
      for (int i = 0; i < kStreams; ++i)
        for (int j = 0; j < kVectors; ++j) {
          const uint8x16_t bytes = vld1q_u8(at.weights[i] + kGroup * kGroupBytes + 16 * j);
          const int8x16_t whole = minus_128(bytes), low = minus_128(vshlq_n_u8(bytes, 4));
          for (int r = 0; r < Rows; ++r) {
            d[r][i] = Dot::add(d[r][i], whole, vld1q_s8(q + r * Group + 16 * j));
            if constexpr (Bits == 4) d[r][i] = Dot::add(d[r][i], low, vld1q_s8(q + r * Group + Group / 2 + 16 * j));
          }
        }
      const Scales<> of_group(at.scales + kGroup * kStreams);
      for (int r = 0; r < Rows; ++r) {
        const SignedFactors& factors = at.factors[kGroup * Rows + r];
        sums[r] = of_group.add_to(sums[r], vaddq_s32(sum_of_each(d[r]), vld1q_s32(factors.offset)), factors);
      }
    });
    for (int r = 0; r < Rows; ++r) {
      float lanes[kStreams];
      vst1q_f32(lanes, sums[r]);
      streams.store(lanes, w.rows, y[r]);
    }
  }
}

}  // namespace
}  // namespace lapidary::cpu
