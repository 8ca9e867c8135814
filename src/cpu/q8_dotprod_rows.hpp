// Products of one or two rows of activations with weights of 4 bits in groups of 64, by dot products of signed bytes.
//
// Two vector operations go in a cycle, and four instructions in all: those beside them must be few. Compilers keep too many values at
// a time and store what they have no registers for.
#pragma once

#include "cpu/q8_in_order.hpp"
#include "cpu/q8_signed.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

template <int Rows>
struct SignedFlow {
  const std::uint8_t* weights[kStreams];
  const std::uint8_t* ahead;
  const std::int8_t* q;
  const std::uint32_t* scales;  // of the group before, like all below
  const std::int32_t* factors;
  int32x4_t dots[2][kStreams];  // of two rows; or of one with whole bytes, and with lower halves
  float32x4_t sums[Rows];
  float32x4_t whole;
  uint32x4_t upper;
  uint8x16_t top, low;
};

// The products of a group.
template <int Rows>
LAPIDARY_INLINE void add_group(SignedFlow<Rows>& f) {
  uint8x16_t w[kStreams][2], shifted;
  int8x16_t bytes, lower, u[Rows][2], v[Rows][2];
  load(f.weights[0], w[0][0], w[0][1]);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    load(f.q, u[r][0], u[r][1]);
    load(f.q, v[r][0], v[r][1]);
  }
#pragma GCC unroll 4
  for (int i = 1; i < kStreams; ++i) load(f.weights[i], w[i][0], w[i][1]);
  fetch<0>(f.ahead);
  fetch<64>(f.ahead);
#pragma GCC unroll 4
  for (int i = 0; i < kStreams; ++i) {
    set_zero(f.dots[0][i]);
    set_zero(f.dots[1][i]);
#pragma GCC unroll 4
    for (int j = 0; j < 2; ++j) {
      flip(bytes, w[i][j], f.top);
      if constexpr (Rows == 1) {
        mask(lower, w[i][j], f.low);
        add_dots(f.dots[0][i], bytes, u[0][j]);
        add_dots(f.dots[1][i], lower, v[0][j]);
      } else {
        shift_up(shifted, w[i][j]);
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) add_dots(f.dots[r][i], bytes, u[r][j]);
        flip(lower, shifted, f.top);
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) add_dots(f.dots[r][i], lower, v[r][j]);
      }
    }
  }
  f.ahead += 128;
}

// Those of the group before come into the sums.
template <int Rows>
LAPIDARY_INLINE void take_group(SignedFlow<Rows>& f) {
  int32x4_t offset[Rows], pairs[2][2], dots[2];
  float32x4_t scale, bias, step, before;
  uint32x4_t words;
  float32x2_t factors[Rows];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    load(f.factors, offset[r]);
    load(f.factors, factors[r]);
  }
  load(f.scales, words);
#pragma GCC unroll 4
  for (int half = 0; half < 2; ++half)
#pragma GCC unroll 4
    for (int i = 0; i < 2; ++i) add_pairs(pairs[i][half], f.dots[i][2 * half], f.dots[i][2 * half + 1]);
  take_upper(scale, words, f.upper);
  take_lower(bias, words);
#pragma GCC unroll 4
  for (int i = 0; i < 2; ++i) add_pairs(dots[i], pairs[i][0], pairs[i][1]);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    multiply_by_first(step, scale, factors[r]);
    add(dots[r], dots[r], offset[r]);
    if constexpr (Rows == 1) {
      times_sixteen(dots[1], dots[1]);
      add(dots[0], dots[0], dots[1]);
    }
    subtract(before, dots[r], f.whole);
    add_product(f.sums[r], before, step);
    add_product_by_second(f.sums[r], bias, factors[r]);
  }
}

template <int Rows>
void multiply_signed(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  const int groups = w.cols / 64;
  let_loads_see();
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    SignedFlow<Rows> f{};
    std::copy_n(streams.at, kStreams, f.weights);
    f.ahead = streams.at[0] + (kStreams - 1) * w.row_bytes + 1024;
    f.q = tile.q;
    f.scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
    f.factors = reinterpret_cast<const std::int32_t*>(tile.factors);
    f.whole = vdupq_n_f32(kWhole);
    f.upper = vdupq_n_u32(0xffff0000u);
    f.top = vdupq_n_u8(0x80);
    f.low = vdupq_n_u8(15);
    add_group(f);
    for (int g = 1; g < groups; ++g) {
      take_group(f);
      add_group(f);
    }
    take_group(f);
    for (int r = 0; r < Rows; ++r) {
      float lanes[kStreams];
      vst1q_f32(lanes, f.sums[r]);
      streams.store(lanes, w.rows, y[r]);
    }
  }
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
