// The products of q8.hpp with Arm's dot products of bytes. This file alone is compiled for processors that have them;
// instructions.hpp says who may call it.
#include "cpu/q8_dotprod_codes.hpp"
#include "cpu/q8_dotprod_four.hpp"
#include "cpu/q8_signed_codes.hpp"

namespace lapidary::cpu {
namespace {

// 16 bytes of four rows, to four vectors with 4 bytes of each row.
LAPIDARY_INLINE void turn_over(uint8x16_t* rows) {
  const auto words = [](uint8x16_t x) { return vreinterpretq_u32_u8(x); };
  const auto pairs = [](uint32x4_t x) { return vreinterpretq_u64_u32(x); };
  const uint64x2_t even01 = pairs(vtrn1q_u32(words(rows[0]), words(rows[1]))), odd01 = pairs(vtrn2q_u32(words(rows[0]), words(rows[1])));
  const uint64x2_t even23 = pairs(vtrn1q_u32(words(rows[2]), words(rows[3]))), odd23 = pairs(vtrn2q_u32(words(rows[2]), words(rows[3])));
  rows[0] = vreinterpretq_u8_u64(vtrn1q_u64(even01, even23));
  rows[1] = vreinterpretq_u8_u64(vtrn1q_u64(odd01, odd23));
  rows[2] = vreinterpretq_u8_u64(vtrn2q_u64(even01, even23));
  rows[3] = vreinterpretq_u8_u64(vtrn2q_u64(odd01, odd23));
}

// Four vectors of turned weights with 16 activations of each row. q: [rows] of [Stride]. Two rows take turns: a sum that has just been
// added to must wait.
template <int Rows, int Stride, class Bytes>
LAPIDARY_INLINE void add_turned(int32x4_t* dots, const Bytes* w, const std::int8_t* q) {
#pragma GCC unroll 8
  for (int r = 0; r < Rows; r += 2) {
    const Bytes first = (Bytes)vld1q_s8(q + r * Stride), second = (Bytes)vld1q_s8(q + (r + 1 < Rows ? r + 1 : r) * Stride);
    const auto add = [&]<int Lane>() __attribute__((always_inline)) {
      in_order::add_dots_by<Lane>(dots[r], w[Lane], first);
      if (r + 1 < Rows) in_order::add_dots_by<Lane>(dots[r + 1], w[Lane], second);
    };
    add.template operator()<0>();
    add.template operator()<1>();
    add.template operator()<2>();
    add.template operator()<3>();
  }
}

template <int Bits, int Group>
constexpr bool kUnsigned = Bits == 4 && Group == 64;

// Several activation rows. Weights are turned so that a vector of sums has one for each of the four rows of a step.
template <int Bits, int Group, int Rows>
void multiply_turned(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  constexpr bool kSums = kUnsigned<Bits, Group>;
  constexpr int kGroupBytes = Group * Bits / 8, kGroupWords = kSums ? in_order::kUnsignedWords : kStreams;
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    Cursor<kGroupBytes, Rows * Group, Rows, kGroupWords> cursor(w, streams, tile, step);
    float32x4_t sums[Rows];
    for (float32x4_t& sum : sums) sum = vdupq_n_f32(0.0f);
    for (int g = w.cols / Group; g > 0; --g) {
      cursor.template fetch<0>();
      int32x4_t dots[Rows];
      for (int r = 0; r < Rows; ++r) dots[r] = vld1q_s32(cursor.factors[r].offset);
#pragma GCC unroll 8
      for (int at = 0; at < kGroupBytes; at += 16) {
        uint8x16_t bytes[kStreams];
        for (int i = 0; i < kStreams; ++i) bytes[i] = vld1q_u8(cursor.weights[i] + at);
        turn_over(bytes);
        if constexpr (kSums) {
          uint8x16_t low[kStreams];
          for (int i = 0; i < kStreams; ++i) low[i] = vshlq_n_u8(bytes[i], 4);
          add_turned<Rows, Group>(dots, bytes, cursor.q + 2 * at);
          add_turned<Rows, Group>(dots, low, cursor.q + 2 * at + 16);
        } else {
          int8x16_t whole[kStreams], low[kStreams];
          for (int i = 0; i < kStreams; ++i) {
            whole[i] = minus_128(bytes[i]);
            low[i] = minus_128(vshlq_n_u8(bytes[i], 4));
          }
          add_turned<Rows, Group>(dots, whole, cursor.q + at);
          if constexpr (Bits == 4) add_turned<Rows, Group>(dots, low, cursor.q + Group / 2 + at);
        }
      }
      const Scales<> of_group(cursor.scales);
      const uint16x4_t excess = vreinterpret_u16_u32(vld1_u32(cursor.scales + kGroupWords - 2));
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        if constexpr (kSums) in_order::subtract_products(dots[r], excess, vdup_n_u16(128));
        sums[r] = of_group.add_to(sums[r], dots[r], cursor.factors[r]);
      }
      cursor.template advance<1>();
    }
    for (int r = 0; r < Rows; ++r) {
      float lanes[kStreams];
      vst1q_f32(lanes, sums[r]);
      streams.store(lanes, w.rows, y[r]);
    }
  }
}

struct Dotprod {
  LAPIDARY_INLINE static int32x4_t add(int32x4_t sum, int8x16_t a, int8x16_t b) { return vdotq_s32(sum, a, b); }

  template <bool Paired, int Group>
  static void quantise(const float* const* x, const Q8Tile& tile, Range groups) {
    if constexpr (Paired && Group == 64) in_order::quantise_unsigned(x, tile, groups);
    else quantise_signed<Paired, Group>(x, tile, groups);
  }

  template <int Bits, int Group, int Rows>
  static void multiply(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    if constexpr (Rows == 1 && kUnsigned<Bits, Group>)
      if (in_order::fits_row_block(w)) return in_order::multiply_four_bits(w, tile, y, steps);
    if constexpr (Rows <= 4 && kUnsigned<Bits, Group>) in_order::multiply_unsigned<Rows>(w, tile, y, steps);
    else if constexpr (Rows == 1) multiply_row<Dotprod, Bits, Group>(w, tile, y[0], steps);
    else multiply_turned<Bits, Group, Rows>(w, tile, y, steps);
  }

  template <Codes codes, int Group>
  static void multiply_codes(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    if constexpr (in_order::kHasRowBlock<codes, Group>)
      if (tile.rows == 1 && in_order::fits_row_block(w)) {
        const in_order::RowFactors factors(tile, w.cols / Group);
        steps = in_order::multiply_in_blocks<Dotprod, codes, Order::neighbours>(w, tile.q, factors.at[0], y[0], steps);
      }
    if (tile.rows == 1) multiply_code_row<Dotprod, codes, Group>(w, tile, y[0], steps);
    else multiply_code_rows<Dotprod, codes, Group>(w, tile, y, steps);
  }
};

}  // namespace

const Q8Kernels kDotprodQ8 = q8_kernels<Dotprod>("dotprod", Order::neighbours, true);

}  // namespace lapidary::cpu
