// Products of one row of activations with weights of 4 bits in groups of 64.
#pragma once

#include "cpu/q8_i8mm_in_order.hpp"

namespace lapidary::cpu::in_order {

inline constexpr int kFetchedRow = 10240;  // inputs from which on a step touches so much that streams are fetched ahead

struct Flow {
  const std::uint8_t* weights[kStreams];
  const std::int8_t* q;
  const std::uint32_t* scales;  // of the group before, like all below
  const float* factors;
  int32x4_t dots[kStreams], dots01;
  float32x4_t sums;
  uint32x4_t upper;
};

// The products of the next group; those of the group before come into the sums.
template <bool Ahead>
LAPIDARY_INLINE void turn(Flow& f) {
  uint8x16_t w[kStreams][2], low[kStreams][2];
  int8x16_t q[4];
  uint32x4_t words;
  float32x2_t factors;
  int32x4_t dots23, dots;
  float32x4_t before, scale, bias, step;
  if constexpr (Ahead)
    for (const std::uint8_t* at : f.weights) fetch_ahead(at);
  load(f.weights[2], w[2][0], w[2][1]);
  add_pairs(dots23, f.dots[2], f.dots[3]);
  load(f.weights[0], w[0][0], w[0][1]);
  load(f.q, q[0], q[1]);
  load(f.weights[1], w[1][0], w[1][1]);
  load(f.q, q[2], q[3]);
  load(f.weights[3], w[3][0], w[3][1]);
  load(f.factors, factors);
  load(f.scales, words);
  shift_up(low[0][0], w[0][0]);
  shift_up(low[1][0], w[1][0]);
  add_pairs(dots, f.dots01, dots23);
  shift_up(low[2][0], w[2][0]);
  set_zero(f.dots[0]);
  add_dots(f.dots[0], w[0][0], q[0]);
  take_upper(scale, words, f.upper);
  shift_up(low[3][0], w[3][0]);
  set_zero(f.dots[1]);
  add_dots(f.dots[1], w[1][0], q[0]);
  add_dots(f.dots[0], low[0][0], q[2]);
  set_zero(f.dots[2]);
  set_zero(f.dots[3]);
  add_dots(f.dots[2], w[2][0], q[0]);
  add_dots(f.dots[3], w[3][0], q[0]);
  shift_up(low[0][1], w[0][1]);
  multiply_by_first(step, scale, factors);
  add_dots(f.dots[2], low[2][0], q[2]);
  add_dots(f.dots[0], w[0][1], q[1]);
  add_dots(f.dots[1], low[1][0], q[2]);
  to_float(before, dots);
  shift_up(low[2][1], w[2][1]);
  shift_up(low[3][1], w[3][1]);
  shift_up(low[1][1], w[1][1]);
  add_dots(f.dots[3], low[3][0], q[2]);
  add_dots(f.dots[3], w[3][1], q[1]);
  add_dots(f.dots[1], w[1][1], q[1]);
  add_dots(f.dots[2], w[2][1], q[1]);
  add_dots(f.dots[0], low[0][1], q[3]);
  add_dots(f.dots[1], low[1][1], q[3]);
  add_dots(f.dots[2], low[2][1], q[3]);
  add_dots(f.dots[3], low[3][1], q[3]);
  take_lower(bias, words);
  add_product(f.sums, before, step);
  add_product_by_second(f.sums, bias, factors);
  add_pairs(f.dots01, f.dots[0], f.dots[1]);
}

template <bool Ahead>
void multiply_run(const Q8Weights& w, const Q8Tile& tile, float* y, Range steps) {
  const int groups = w.cols / 64;
  const std::int8_t* const q = tile.q;
  const float* const factors = tile.factors;
  const std::uint32_t* const scales = w.scales + static_cast<std::size_t>(steps.begin) * groups * kStreams;
  let_loads_see();

  Flow f{};
  f.q = q;
  f.scales = scales;
  f.factors = factors;
  f.upper = vdupq_n_u32(0xffff0000u);
  float* out[kStreams];
  for (int i = 0; i < kStreams; ++i) {
    const int row = w.walk.row(steps.begin, i);
    f.weights[i] = reinterpret_cast<const std::uint8_t*>(w.values) + row * w.row_bytes;
    out[i] = y + row;
  }
  turn<Ahead>(f);  // the first group; there is none before it
  f.scales = scales;
  for (int step = steps.begin;;) {
    f.factors = factors;
    f.sums = vdupq_n_f32(0.0f);
    for (int g = 1; g < groups; ++g) turn<Ahead>(f);
    if (++step == steps.end) break;
    f.q = q;
    turn<Ahead>(f);
    for (int i = 0; i < kStreams; ++i) *out[i]++ = f.sums[i];
  }
  // The last group.
  const int32x4_t dots = vpaddq_s32(f.dots01, vpaddq_s32(f.dots[2], f.dots[3]));
  const uint32x4_t words = vld1q_u32(f.scales);
  const float32x2_t pair = vld1_f32(f.factors);
  f.sums = vfmaq_f32(f.sums, vcvtq_f32_s32(dots), vmulq_lane_f32(vreinterpretq_f32_u32(vandq_u32(words, f.upper)), pair, 0));
  f.sums = vfmaq_lane_f32(f.sums, vreinterpretq_f32_u32(vshlq_n_u32(words, 16)), pair, 1);
  for (int i = 0; i < kStreams; ++i) *out[i] = f.sums[i];
}

inline void multiply_row(const Q8Weights& w, const Q8Tile& tile, float* y, Range steps) {
  for_each_run(w, steps, [&](Range run) {
    if (w.cols < kFetchedRow) multiply_run<false>(w, tile, y, run);
    else multiply_run<true>(w, tile, y, run);
  });
}

}  // namespace lapidary::cpu::in_order
