// The products of q8.hpp with Arm's dot products and matrix products of bytes. This file alone is compiled for processors that
// have them; instructions.hpp says who may call it.
//
// Reading goes as fast as the core can issue, so every operation counts: bytes are multiplied as they lie in the file, a step has
// four rows whose sums meet in one vector, and groups are taken several at a time.
#include <iterator>

#include "cpu/q8_arm.hpp"
#include "cpu/q8_codes_arm.hpp"
#include "cpu/q8_dotprod_codes.hpp"
#include "cpu/q8_i8mm_eight.hpp"
#include "cpu/q8_i8mm_four.hpp"
#include "cpu/q8_i8mm_row.hpp"
#include "cpu/q8_i8mm_two.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kLongRow = 4096;     // inputs from which on streams are fetched ahead where the compiler orders the loop
constexpr int kAheadBytes = 384;   // fetched ahead of a long row's streams

LAPIDARY_INLINE int8x16_t lower(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
LAPIDARY_INLINE int8x16_t upper(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

// Two rows side by side, as matrix products take them: 8 elements of each, of pairs odd ones, then even ones. q: [2 Group]
template <bool Paired, int Group>
LAPIDARY_INLINE void store_pair(const QuantisedGroup<Group>& a, const QuantisedGroup<Group>& b, std::int8_t* q, float* factors) {
  constexpr int kParts = Paired ? 2 : 1, kVectors = Group / 16 / kParts;
  for (int part = 0; part < kParts; ++part)
    for (int i = 0; i < kVectors; ++i) {
      const int8x16_t x = a.q[part * kVectors + i], y = b.q[part * kVectors + i];
      vst1q_s8(q + (2 * i * kParts + part) * 16, lower(x, y));
      vst1q_s8(q + ((2 * i + 1) * kParts + part) * 16, upper(x, y));
    }
  const float32x2_t scales = {a.a, b.a}, sums = {a.a_sum, b.a_sum};
  vst1q_f32(factors, vcombine_f32(scales, scales));
  vst1q_f32(factors + 4, vcombine_f32(sums, sums));
}

int pairs_of(int rows) { return (rows + 1) / 2; }

// One row as it is; more as [groups, pairs] of store_pair, the last pair filled up with zeros.
template <bool Paired, int Group>
void quantise_pairs(const float* const* x, const Q8Tile& tile, Range groups) {
  const int pairs = pairs_of(tile.rows);
  for (int begin = groups.begin; begin < groups.end; begin += kSteps) {
    const int count = std::min(kSteps, groups.end - begin);
    Step8 steps[2][kSteps];
    if (tile.rows == 1) {
      find_steps<Paired, Group>(x[0] + begin * Group, count, steps[0]);
      for (int g = begin; g < begin + count; ++g) {
        const QuantisedGroup<Group> group = quantise_group<Paired, Group>(x[0] + g * Group, steps[0][g - begin]);
        for (int i = 0; i < Group / 16; ++i) vst1q_s8(tile.q + g * Group + 16 * i, group.q[i]);
        tile.factors[2 * g] = group.a;
        tile.factors[2 * g + 1] = group.a_sum;
      }
      continue;
    }
    for (int pair = 0; pair < pairs; ++pair) {
      const bool full = 2 * pair + 1 < tile.rows;
      const float* const rows[2] = {x[2 * pair], x[full ? 2 * pair + 1 : 2 * pair]};
      for (int i = 0; i < 1 + full; ++i) find_steps<Paired, Group>(rows[i] + begin * Group, count, steps[i]);
      for (int g = begin; g < begin + count; ++g) {
        const QuantisedGroup<Group> first = quantise_group<Paired, Group>(rows[0] + g * Group, steps[0][g - begin]);
        QuantisedGroup<Group> second;
        if (full) second = quantise_group<Paired, Group>(rows[1] + g * Group, steps[1][g - begin]);
        else std::fill(std::begin(second.q), std::end(second.q), vdupq_n_s8(0));
        const std::size_t at = static_cast<std::size_t>(g) * pairs + pair;
        store_pair<Paired, Group>(first, second, tile.q + at * 2 * Group, tile.factors + at * 8);
      }
    }
  }
}

// ---- products

LAPIDARY_INLINE void store(const Streams& streams, int rows, float32x4_t sums, float* y) {
  float lanes[kStreams];
  vst1q_f32(lanes, sums);
  streams.store(lanes, rows, y);
}

template <int Bits, int Group>
LAPIDARY_INLINE int32x4_t dot(const std::uint8_t* w, const int8x16_t* q) {
  int32x4_t sum = vdupq_n_s32(0);
  if constexpr (Bits == 8) {
    for (int i = 0; i < Group / 16; ++i) sum = vusdotq_s32(sum, vld1q_u8(w + 16 * i), q[i]);
  } else {
    constexpr int kVectors = Group / 32;
    for (int i = 0; i < kVectors; ++i) {
      const uint8x16_t bytes = vld1q_u8(w + 16 * i);
      sum = vusdotq_s32(sum, bytes, q[i]);
      sum = vusdotq_s32(sum, vshlq_n_u8(bytes, 4), q[kVectors + i]);
    }
  }
  return sum;
}

// A group of one activation row. d: of the four rows of a step
template <bool Biases>
LAPIDARY_INLINE float32x4_t add_products(float32x4_t sums, const int32x4_t* d, const std::uint32_t* scales, const float* a_and_sum) {
  const float32x4_t dots = vcvtq_f32_s32(vpaddq_s32(vpaddq_s32(d[0], d[1]), vpaddq_s32(d[2], d[3])));
  const uint32x4_t words = vld1q_u32(scales);
  const float32x4_t s = vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xffff0000u)));
  const float32x4_t b = vreinterpretq_f32_u32(vshlq_n_u32(words, 16));
  const float32x2_t factors = vld1_f32(a_and_sum);
  sums = vfmaq_f32(sums, dots, vmulq_lane_f32(s, factors, 0));
  return Biases ? vfmaq_lane_f32(sums, b, factors, 1) : sums;
}

// One activation row.
template <int Bits, int Group, bool Ahead>
void multiply_one(const Q8Weights& w, const Q8Tile& tile, float* y, Range steps) {
  constexpr int kGroupBytes = Group * Bits / 8, kUnroll = std::max(1, 256 / Group);
  const int groups = w.cols / Group;
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
    float32x4_t sums = vdupq_n_f32(0.0f);
    const auto add_group = [&](int g) __attribute__((always_inline)) {
      int8x16_t q[Group / 16];
      for (int i = 0; i < Group / 16; ++i) q[i] = vld1q_s8(tile.q + g * Group + 16 * i);
      int32x4_t d[kStreams];
      for (int i = 0; i < kStreams; ++i) d[i] = dot<Bits, Group>(streams.at[i] + g * kGroupBytes, q);
      sums = add_products<true>(sums, d, scales + g * kStreams, tile.factors + 2 * g);
    };
    int g = 0;
    for (; g + kUnroll <= groups; g += kUnroll) {
      if constexpr (Ahead)
        for (int line = 0; line < kUnroll * kGroupBytes; line += 64)
          for (int i = 0; i < kStreams; ++i) in_order::fetch<kAheadBytes>(streams.at[i] + g * kGroupBytes + line);
#pragma GCC unroll 8
      for (int i = 0; i < kUnroll; ++i) add_group(g + i);
    }
    for (; g < groups; ++g) add_group(g);
    store(streams, w.rows, sums, y);
  }
}

LAPIDARY_INLINE uint8x16_t lower(uint8x16_t a, uint8x16_t b) {
  return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}
LAPIDARY_INLINE uint8x16_t upper(uint8x16_t a, uint8x16_t b) {
  return vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}

// Scales and biases of a group, for the two pairs of rows of a step.
struct PairScales {
  float32x4_t scale[2], bias[2];
  LAPIDARY_INLINE explicit PairScales(const std::uint32_t* at) {
    const uint32x4_t words = vld1q_u32(at);
    const uint32x4_t s = vandq_u32(words, vdupq_n_u32(0xffff0000u)), b = vshlq_n_u32(words, 16);
    scale[0] = vreinterpretq_f32_u32(vzip1q_u32(s, s)), scale[1] = vreinterpretq_f32_u32(vzip2q_u32(s, s));
    bias[0] = vreinterpretq_f32_u32(vzip1q_u32(b, b)), bias[1] = vreinterpretq_f32_u32(vzip2q_u32(b, b));
  }
  // factors: of store_pair
  template <bool Biases>
  LAPIDARY_INLINE float32x4_t add_to(int half, float32x4_t sums, int32x4_t dots, const float* factors) const {
    sums = vfmaq_f32(sums, vcvtq_f32_s32(dots), vmulq_f32(scale[half], vld1q_f32(factors)));
    return Biases ? vfmaq_f32(sums, bias[half], vld1q_f32(factors + 4)) : sums;
  }
};

// sums: [weight row][activation row], of the first two rows of the step and the last two
LAPIDARY_INLINE void store_pair(const Streams& streams, int rows, float32x4_t first, float32x4_t last, float* const* y, bool both) {
  store(streams, rows, vuzp1q_f32(first, last), y[0]);
  if (both) store(streams, rows, vuzp2q_f32(first, last), y[1]);
}

// Pairs of weight rows with pairs of activation rows: 2 x 2 sums in a vector, [weight row][activation row].
template <int Bits, int Group, int Pairs>
void multiply_pairs(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  constexpr int kGroupBytes = Group * Bits / 8, kUnroll = Pairs == 1 ? std::max(1, 256 / Group) : Pairs == 2 ? std::max(1, 128 / Group) : 1;
  const int groups = w.cols / Group;
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
    const std::int8_t* q = tile.q;
    const float* factors = tile.factors;
    float32x4_t sums[2][Pairs];
    for (auto& row : sums)
      for (float32x4_t& sum : row) sum = vdupq_n_f32(0.0f);

    const auto add_group = [&](int g) __attribute__((always_inline)) {
      int32x4_t d[2][Pairs];
      for (auto& row : d)
        for (int32x4_t& sum : row) sum = vdupq_n_s32(0);
#pragma GCC unroll 8
      for (int at = 0; at < kGroupBytes; at += 16) {
        uint8x16_t chunks[2][2];  // [weight pair][chunk]
        for (int half = 0; half < 2; ++half) {
          const uint8x16_t a = vld1q_u8(streams.at[2 * half] + g * kGroupBytes + at);
          const uint8x16_t b = vld1q_u8(streams.at[2 * half + 1] + g * kGroupBytes + at);
          chunks[half][0] = lower(a, b);
          chunks[half][1] = upper(a, b);
        }
#pragma GCC unroll 2
        for (int c = 0; c < 2; ++c) {
          if constexpr (Bits == 8) {
            for (int p = 0; p < Pairs; ++p) {
              const int8x16_t x = vld1q_s8(q + p * 2 * Group + (at / 8 + c) * 16);
              for (int half = 0; half < 2; ++half) d[half][p] = vusmmlaq_s32(d[half][p], chunks[half][c], x);
            }
          } else {
            const uint8x16_t low[2] = {vshlq_n_u8(chunks[0][c], 4), vshlq_n_u8(chunks[1][c], 4)};
            for (int p = 0; p < Pairs; ++p) {
              const std::int8_t* from = q + p * 2 * Group + (at / 8 + c) * 32;
              const int8x16_t odd = vld1q_s8(from), even = vld1q_s8(from + 16);
              for (int half = 0; half < 2; ++half) {
                d[half][p] = vusmmlaq_s32(d[half][p], chunks[half][c], odd);
                d[half][p] = vusmmlaq_s32(d[half][p], low[half], even);
              }
            }
          }
        }
      }
      const PairScales of_group(scales + g * kStreams);
      for (int p = 0; p < Pairs; ++p)
        for (int half = 0; half < 2; ++half)
          sums[half][p] = of_group.add_to<true>(half, sums[half][p], d[half][p], factors + 8 * p);
      q += Pairs * 2 * Group;
      factors += Pairs * 8;
    };
    int g = 0;
    for (; g + kUnroll <= groups; g += kUnroll)
#pragma GCC unroll 8
      for (int i = 0; i < kUnroll; ++i) add_group(g + i);
    for (; g < groups; ++g) add_group(g);

    for (int p = 0; p < Pairs; ++p) store_pair(streams, w.rows, sums[0][p], sums[1][p], y + 2 * p, 2 * p + 1 < tile.rows);
  }
}

struct SignedDots {
  LAPIDARY_INLINE static int32x4_t add(int32x4_t sum, int8x16_t a, int8x16_t b) { return vdotq_s32(sum, a, b); }
};

// Codes of fewer than 8 bits, one activation row.
template <Codes codes, int Group>
void multiply_codes_one(const Q8Weights& w, const Q8Tile& tile, float* y, Range steps) {
  constexpr int kGroupBytes = Group * bits_of(codes) / 8;
  const int groups = w.cols / Group;
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
    float32x4_t sums = vdupq_n_f32(0.0f);
    for (int g = 0; g < groups; ++g) {
      const RowGroup<SignedDots, codes, Group> activations(tile.q + g * Group);
      int32x4_t d[kStreams];
#pragma GCC unroll 4
      for (int i = 0; i < kStreams; ++i) d[i] = activations.add(vdupq_n_s32(0), streams.at[i] + g * kGroupBytes);
      sums = add_products<has_biases(codes)>(sums, d, scales + g * kStreams, tile.factors + 2 * g);
    }
    store(streams, w.rows, sums, y);
  }
}

// The same, pairs of activation rows.
template <Codes codes, int Group>
void multiply_codes_pairs(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  constexpr int kGroupBytes = Group * bits_of(codes) / 8, kVectors = Group / 16;
  const int groups = w.cols / Group, pairs = pairs_of(tile.rows);
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
    const std::int8_t* q = tile.q;
    const float* factors = tile.factors;
    float32x4_t sums[kTileRows / 2][2];
    for (auto& pair : sums)
      for (float32x4_t& sum : pair) sum = vdupq_n_f32(0.0f);
    for (int g = 0; g < groups; ++g) {
      int8x16_t c[2][2 * kVectors];
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        int8x16_t a[kVectors], b[kVectors];
        load_codes<codes, Group>(streams.at[2 * half] + g * kGroupBytes, a);
        load_codes<codes, Group>(streams.at[2 * half + 1] + g * kGroupBytes, b);
        for (int j = 0; j < kVectors; ++j) {
          c[half][2 * j] = lower(a[j], b[j]);
          c[half][2 * j + 1] = upper(a[j], b[j]);
        }
      }
      const PairScales of_group(scales + g * kStreams);
      for (int p = 0; p < pairs; ++p, q += 2 * Group, factors += 8) {
        int32x4_t d[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
#pragma GCC unroll 16
        for (int j = 0; j < 2 * kVectors; ++j) {
          const int8x16_t x = vld1q_s8(q + 16 * j);
          for (int half = 0; half < 2; ++half) d[half] = vmmlaq_s32(d[half], c[half][j], x);
        }
        for (int half = 0; half < 2; ++half)
          sums[p][half] = of_group.add_to<has_biases(codes)>(half, sums[p][half], d[half], factors);
      }
    }
    for (int p = 0; p < pairs; ++p) store_pair(streams, w.rows, sums[p][0], sums[p][1], y + 2 * p, 2 * p + 1 < tile.rows);
  }
}

struct I8mm {
  template <bool Paired, int Group>
  static void quantise(const float* const* x, const Q8Tile& tile, Range groups) {
    quantise_pairs<Paired, Group>(x, tile, groups);
  }

  template <int Bits, int Group, int Rows>
  static void multiply(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    constexpr int kPairs = (Rows + 1) / 2;
    if constexpr (Bits == 4 && Group == 64 && kPairs != 3)
      if (in_order::can_multiply(w)) {
        if constexpr (Rows == 1) return in_order::multiply_row(w, tile, y[0], steps);
        else if constexpr (kPairs == 4) return in_order::multiply_eight(w, tile, y, steps);
        else return in_order::multiply_pairs<kPairs>(w, tile, y, steps);
      }
    if constexpr (Rows > 1) return multiply_pairs<Bits, Group, kPairs>(w, tile, y, steps);
    else if (w.cols >= kLongRow) return multiply_one<Bits, Group, true>(w, tile, y[0], steps);
    else return multiply_one<Bits, Group, false>(w, tile, y[0], steps);
  }

  template <Codes codes, int Group>
  static void multiply_codes(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    if constexpr (in_order::kHasRowBlock<codes, Group>)
      if (tile.rows == 1 && in_order::fits_row_block(w))
        steps = in_order::multiply_in_blocks<SignedDots, codes, Order::quarters>(w, tile.q, tile.factors, y[0], steps);
    if (tile.rows == 1) multiply_codes_one<codes, Group>(w, tile, y[0], steps);
    else multiply_codes_pairs<codes, Group>(w, tile, y, steps);
  }
};

}  // namespace

const Q8Kernels kI8mmQ8 = q8_kernels<I8mm>("i8mm", Order::quarters);

}  // namespace lapidary::cpu
