// Products of one row of activations with weights of 4 bits in groups of 64.
#pragma once

#include "cpu/q8_i8mm_in_order.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

struct RowFlow {
  const std::uint8_t* weights[kStreams];
  uint8x16_t w[kStreams][2];  // of the next group
  const std::int8_t* q;
  const std::uint32_t* scales;  // of the group before, like all below
  const float* factors;
  int32x4_t dots[kStreams], dots01;
  float32x4_t sums;
  uint32x4_t upper;

  void load_first() {
    for (int i = 0; i < kStreams; ++i) load(weights[i], w[i][0], w[i][1]);
  }
  void clear_sums() { sums = vdupq_n_f32(0.0f); }
};

// The products of the next group; those of the group before come into the sums. A line holds two groups of a stream, so a turn
// fetches ahead for the streams Fetched and Fetched + 1. Unless this is the last turn, the weights of the group after come into
// the registers as they become free: there is time for those that lie across two lines.
template <int Fetched, bool Last = false>
LAPIDARY_INLINE void turn(RowFlow& f) {
  uint8x16_t low[kStreams][2];
  auto& w = f.w;
  int8x16_t q[4];
  uint32x4_t words;
  float32x2_t factors;
  int32x4_t dots23, dots;
  float32x4_t before, scale, bias, step;
  add_pairs(dots23, f.dots[2], f.dots[3]);
  load(f.q, q[0], q[1]);
  load(f.q, q[2], q[3]);
  fetch<512>(f.weights[Fetched]);
  load(f.factors, factors);
  load(f.scales, words);
  shift_up(low[0][0], w[0][0]);
  shift_up(low[1][0], w[1][0]);
  add_pairs(dots, f.dots01, dots23);
  shift_up(low[2][0], w[2][0]);
  set_zero(f.dots[0]);
  add_dots(f.dots[0], w[0][0], q[0]);
  set_zero(f.dots[2]);
  take_upper(scale, words, f.upper);
  shift_up(low[3][0], w[3][0]);
  set_zero(f.dots[1]);
  add_dots(f.dots[1], w[1][0], q[0]);
  add_dots(f.dots[0], low[0][0], q[2]);
  set_zero(f.dots[3]);
  add_dots(f.dots[2], w[2][0], q[0]);
  fetch<512>(f.weights[Fetched + 1]);
  shift_up(low[0][1], w[0][1]);
  add_dots(f.dots[2], low[2][0], q[2]);
  add_dots(f.dots[0], w[0][1], q[1]);
  if constexpr (!Last) load(f.weights[0], w[0][0], w[0][1]);
  add_dots(f.dots[1], low[1][0], q[2]);
  to_float(before, dots);
  shift_up(low[2][1], w[2][1]);
  add_dots(f.dots[3], w[3][0], q[0]);
  add_dots(f.dots[3], low[3][0], q[2]);
  shift_up(low[3][1], w[3][1]);
  shift_up(low[1][1], w[1][1]);
  add_dots(f.dots[3], w[3][1], q[1]);
  multiply_by_first(step, scale, factors);
  add_dots(f.dots[1], w[1][1], q[1]);
  if constexpr (!Last) load(f.weights[1], w[1][0], w[1][1]);
  add_dots(f.dots[1], low[1][1], q[3]);
  add_dots(f.dots[2], w[2][1], q[1]);
  if constexpr (!Last) load(f.weights[2], w[2][0], w[2][1]);
  add_dots(f.dots[0], low[0][1], q[3]);
  if constexpr (Fetched == 0) fetch<256>(f.scales);
  add_dots(f.dots[3], low[3][1], q[3]);
  take_lower(bias, words);
  add_dots(f.dots[2], low[2][1], q[3]);
  add_product(f.sums, before, step);
  add_product_by_second(f.sums, bias, factors);
  if constexpr (!Last) load(f.weights[3], w[3][0], w[3][1]);
  add_pairs(f.dots01, f.dots[0], f.dots[1]);
}

inline void multiply_row(const Q8Weights& w, const Q8Tile& tile, float* y, Range steps) {
  for_each_step<RowFlow>(w, tile, steps, [&](const RowFlow& f, const int* rows) {
    for (int i = 0; i < kStreams; ++i) y[rows[i]] = f.sums[i];
  });
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
