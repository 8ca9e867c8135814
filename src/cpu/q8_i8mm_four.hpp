// Products of three or four rows of activations with weights of 4 bits in groups of 64.
#pragma once

#include "cpu/q8_i8mm_pairs.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

// Turns as those for one row (q8_i8mm_row.hpp).
template <int Fetched, bool Last = false>
LAPIDARY_INLINE void turn(PairFlow<2>& f) {
  uint8x16_t second[kStreams], bytes[4][2], low[4][2];  // the second half of the group; [8 weights][pair]
  int8x16_t odd[4][2], even[4][2];                      // [8 weights][activation pair]
  uint32x4_t words;
  float32x4_t a[2], a_sum[2], scales, biases, scale[2], bias[2], before[2][2], step[2][2];
  load_at<16>(f.weights[0], second[0]);
  zip_lower(bytes[0][0], f.w[0], f.w[1]);
  load(f.scales, words);
  load_at<128>(f.q, odd[0][1], even[0][1]);
  zip_lower(bytes[0][1], f.w[2], f.w[3]);
  take_upper(scales, words, f.upper);
  double_upper(scale[1], scales);
  zip_upper(bytes[1][1], f.w[2], f.w[3]);
  zip_upper(bytes[1][0], f.w[0], f.w[1]);
  shift_up(low[0][0], bytes[0][0]);
  double_lower(scale[0], scales);
  shift_up(low[0][1], bytes[0][1]);
  load_at<32>(f.factors, a[1], a_sum[1]);
  to_float(before[1][0], f.dots[1][0]);
  fetch<512>(f.weights[Fetched]);
  to_float(before[0][1], f.dots[0][1]);
  set_zero(f.dots[0][1]);
  set_zero(f.dots[1][0]);
  load_at<16>(f.weights[1], second[1]);
  to_float(before[1][1], f.dots[1][1]);
  add_matrix_product(f.dots[0][1], bytes[0][0], odd[0][1]);
  to_float(before[0][0], f.dots[0][0]);
  add_matrix_product(f.dots[0][1], low[0][0], even[0][1]);
  set_zero(f.dots[0][0]);
  load_at<0>(f.q, odd[0][0], even[0][0]);
  multiply(step[0][1], scale[0], a[1]);
  load_at<0>(f.factors, a[0], a_sum[0]);
  add_matrix_product(f.dots[1][0], bytes[0][1], odd[0][0]);
  take_lower(biases, words);
  add_product(f.sums[0][1], before[0][1], step[0][1]);
  zip_lower(bytes[2][0], second[0], second[1]);
  set_zero(f.dots[1][1]);
  add_matrix_product(f.dots[0][0], bytes[0][0], odd[0][0]);
  multiply(step[1][1], scale[1], a[1]);
  load_at<16>(f.weights[2], second[2]);
  multiply(step[0][0], scale[0], a[0]);
  add_matrix_product(f.dots[1][0], low[0][1], even[0][0]);
  add_matrix_product(f.dots[1][1], bytes[0][1], odd[0][1]);
  multiply(step[1][0], scale[1], a[0]);
  load_at<16>(f.weights[3], second[3]);
  double_upper(bias[1], biases);
  load_at<32>(f.q, odd[1][0], even[1][0]);
  zip_upper(bytes[3][0], second[0], second[1]);
  add_matrix_product(f.dots[0][0], low[0][0], even[0][0]);
  add_matrix_product(f.dots[1][0], bytes[1][1], odd[1][0]);
  add_product(f.sums[0][0], before[0][0], step[0][0]);
  load_at<160>(f.q, odd[1][1], even[1][1]);
  zip_lower(bytes[2][1], second[2], second[3]);
  add_matrix_product(f.dots[1][1], low[0][1], even[0][1]);
  zip_upper(bytes[3][1], second[2], second[3]);
  add_matrix_product(f.dots[1][1], bytes[1][1], odd[1][1]);
  add_matrix_product(f.dots[0][1], bytes[1][0], odd[1][1]);
  load_at<64>(f.q, odd[2][0], even[2][0]);
  shift_up(low[1][0], bytes[1][0]);
  add_matrix_product(f.dots[0][0], bytes[1][0], odd[1][0]);
  load_at<224>(f.q, odd[3][1], even[3][1]);
  if constexpr (Fetched == 0) fetch<256>(f.scales);
  load_at<96>(f.q, odd[3][0], even[3][0]);
  add_product(f.sums[1][1], before[1][1], step[1][1]);
  add_matrix_product(f.dots[0][0], bytes[2][0], odd[2][0]);
  shift_up(low[1][1], bytes[1][1]);
  double_lower(bias[0], biases);
  if constexpr (!Last) load_next(f.weights[3], f.w[3]);
  add_product(f.sums[1][0], before[1][0], step[1][0]);
  fetch<512>(f.weights[Fetched + 1]);
  add_matrix_product(f.dots[1][0], bytes[2][1], odd[2][0]);
  add_matrix_product(f.dots[0][1], bytes[3][0], odd[3][1]);
  shift_up(low[3][0], bytes[3][0]);
  load_at<192>(f.q, odd[2][1], even[2][1]);
  add_matrix_product(f.dots[1][0], bytes[3][1], odd[3][0]);
  shift_up(low[2][0], bytes[2][0]);
  add_matrix_product(f.dots[0][0], low[1][0], even[1][0]);
  add_matrix_product(f.dots[0][0], bytes[3][0], odd[3][0]);
  add_product(f.sums[1][1], bias[1], a_sum[1]);
  shift_up(low[2][1], bytes[2][1]);
  if constexpr (!Last) load_next(f.weights[1], f.w[1]);
  if constexpr (!Last) load_next(f.weights[0], f.w[0]);
  add_matrix_product(f.dots[0][0], low[3][0], even[3][0]);
  add_matrix_product(f.dots[1][1], bytes[2][1], odd[2][1]);
  add_matrix_product(f.dots[1][0], low[2][1], even[2][0]);
  add_matrix_product(f.dots[0][1], low[1][0], even[1][1]);
  add_product(f.sums[0][0], bias[0], a_sum[0]);
  add_matrix_product(f.dots[1][1], bytes[3][1], odd[3][1]);
  add_matrix_product(f.dots[0][1], low[2][0], even[2][1]);
  shift_up(low[3][1], bytes[3][1]);
  if constexpr (!Last) load_next(f.weights[2], f.w[2]);
  add_matrix_product(f.dots[0][1], low[3][0], even[3][1]);
  add_product(f.sums[0][1], bias[0], a_sum[1]);
  add_matrix_product(f.dots[1][0], low[1][1], even[1][0]);
  add_matrix_product(f.dots[1][1], low[1][1], even[1][1]);
  add_product(f.sums[1][0], bias[1], a_sum[0]);
  add_matrix_product(f.dots[1][1], low[2][1], even[2][1]);
  add_matrix_product(f.dots[1][0], low[3][1], even[3][0]);
  add_matrix_product(f.dots[0][1], bytes[2][0], odd[2][1]);
  add_matrix_product(f.dots[1][1], low[3][1], even[3][1]);
  add_matrix_product(f.dots[0][0], low[2][0], even[2][0]);
  f.q += 256;
  f.factors += 16;
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
