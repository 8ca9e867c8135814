// Products of three or four rows of activations with weights of 4 bits in groups of 64.
#pragma once

#include "cpu/q8_i8mm_in_order.hpp"

namespace lapidary::cpu::in_order {

inline constexpr int kPairs = 2;  // of activation rows; the weight rows of a step are two pairs as well

struct FourFlow {
  const std::uint8_t* weights[kStreams];
  const std::int8_t* q;
  const std::uint32_t* scales;
  const float* factors;             // of the group before, like all below
  int32x4_t dots[2][kPairs];        // [weight pair][activation pair]: 2 x 2 sums each
  float32x4_t scale[2], bias[2];    // [weight pair]
  float32x4_t sums[2][kPairs];
  uint32x4_t upper;
};

// Each does two things that wait for nothing of each other, for the two pairs of rows.

LAPIDARY_INLINE void shift_up(uint8x16_t* low, const uint8x16_t* bytes) {
  shift_up(low[1], bytes[1]);
  shift_up(low[0], bytes[0]);
}
LAPIDARY_INLINE void zip_lower(uint8x16_t* zipped, const uint8x16_t* w) {
  zip_lower(zipped[1], w[2], w[3]);
  zip_lower(zipped[0], w[0], w[1]);
}
LAPIDARY_INLINE void zip_upper(uint8x16_t* zipped, const uint8x16_t* w) {
  zip_upper(zipped[1], w[2], w[3]);
  zip_upper(zipped[0], w[0], w[1]);
}
template <int Offset>
LAPIDARY_INLINE void load_weights(const FourFlow& f, uint8x16_t* w) {
  for (const int stream : {2, 3, 0, 1}) load_at<Offset>(f.weights[stream], w[stream]);
}
// Those that meet weights 8 Part.. of the group.
template <int Part>
LAPIDARY_INLINE void load_activations(const FourFlow& f, int8x16_t* odd, int8x16_t* even) {
  load_at<32 * Part>(f.q, odd[0], even[0]);
  load_at<32 * Part + 128>(f.q, odd[1], even[1]);
}

// 8 weights of four rows, as bytes and as their lower halves, with four rows of activations.
LAPIDARY_INLINE void add_products(FourFlow& f, int pair, const uint8x16_t* bytes, const uint8x16_t* low, int8x16_t odd,
                                  int8x16_t even) {
  add_matrix_product(f.dots[0][pair], bytes[0], odd);
  add_matrix_product(f.dots[1][pair], bytes[1], odd);
  add_matrix_product(f.dots[0][pair], low[0], even);
  add_matrix_product(f.dots[1][pair], low[1], even);
}

// The same for the first weights of a group, while the sums of the group before are taken away.
template <bool First>
LAPIDARY_INLINE void begin_products(FourFlow& f, int pair, const uint8x16_t* bytes, const uint8x16_t* low, int8x16_t odd,
                                    int8x16_t even) {
  float32x4_t a, a_sum, before[2], step[2];
  if constexpr (!First) {
    load_at<0>(f.factors + 8 * pair, a, a_sum);
    to_float(before[0], f.dots[0][pair]);
    multiply(step[0], f.scale[0], a);
    to_float(before[1], f.dots[1][pair]);
  }
  set_zero(f.dots[0][pair]);
  add_matrix_product(f.dots[0][pair], bytes[0], odd);
  if constexpr (!First) {
    multiply(step[1], f.scale[1], a);
    add_product(f.sums[0][pair], before[0], step[0]);
  }
  set_zero(f.dots[1][pair]);
  add_matrix_product(f.dots[1][pair], bytes[1], odd);
  add_matrix_product(f.dots[0][pair], low[0], even);
  if constexpr (!First) {
    add_product(f.sums[1][pair], before[1], step[1]);
    add_product(f.sums[0][pair], f.bias[0], a_sum);
  }
  add_matrix_product(f.dots[1][pair], low[1], even);
  if constexpr (!First) add_product(f.sums[1][pair], f.bias[1], a_sum);
}

// The products of the next group; those of the group before come into the sums, unless this is the first.
template <bool First>
LAPIDARY_INLINE void turn(FourFlow& f) {
  uint8x16_t w[kStreams], first[2], second[2], low[2];
  int8x16_t odd[kPairs], even[kPairs];
  uint32x4_t words;
  float32x4_t scale, bias;
  load_weights<0>(f, w);
  load_activations<0>(f, odd, even);
  zip_lower(first, w);
  zip_upper(second, w);
  shift_up(low, first);
  load_weights<16>(f, w);
  begin_products<First>(f, 0, first, low, odd[0], even[0]);
  begin_products<First>(f, 1, first, low, odd[1], even[1]);

  load_activations<1>(f, odd, even);
  shift_up(low, second);
  zip_lower(first, w);
  add_products(f, 0, second, low, odd[0], even[0]);
  add_products(f, 1, second, low, odd[1], even[1]);

  load_activations<2>(f, odd, even);
  load(f.scales, words);
  shift_up(low, first);
  zip_upper(second, w);
  add_products(f, 0, first, low, odd[0], even[0]);
  add_products(f, 1, first, low, odd[1], even[1]);

  load_activations<3>(f, odd, even);
  shift_up(low, second);
  take_upper(scale, words, f.upper);
  take_lower(bias, words);
  add_products(f, 0, second, low, odd[0], even[0]);
  double_lower(f.scale[0], scale);
  double_upper(f.scale[1], scale);
  double_lower(f.bias[0], bias);
  double_upper(f.bias[1], bias);
  add_products(f, 1, second, low, odd[1], even[1]);

  for (const std::uint8_t*& at : f.weights) at += 32;
  f.q += kPairs * 128;
  if constexpr (!First) f.factors += kPairs * 8;
}

inline void multiply_four_run(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  const int groups = w.cols / 64;
  let_loads_see();
  FourFlow f{};
  f.upper = vdupq_n_u32(0xffff0000u);
  f.scales = w.scales + static_cast<std::size_t>(steps.begin) * groups * kStreams;
  int rows[kStreams];
  for (int i = 0; i < kStreams; ++i) {
    rows[i] = w.walk.row(steps.begin, i);
    f.weights[i] = reinterpret_cast<const std::uint8_t*>(w.values) + rows[i] * w.row_bytes;
  }
  for (int step = steps.begin; step < steps.end; ++step) {
    f.q = tile.q;
    f.factors = tile.factors;
    for (auto& sums : f.sums) sums[0] = sums[1] = vdupq_n_f32(0.0f);
    turn<true>(f);
    for (int g = 1; g < groups; ++g) turn<false>(f);
    for (int pair = 0; pair < kPairs; ++pair) {
      const float32x4_t a = vld1q_f32(f.factors + 8 * pair), a_sum = vld1q_f32(f.factors + 8 * pair + 4);
      float32x4_t sums[2];
      for (int half = 0; half < 2; ++half) {
        sums[half] = vfmaq_f32(f.sums[half][pair], vcvtq_f32_s32(f.dots[half][pair]), vmulq_f32(f.scale[half], a));
        sums[half] = vfmaq_f32(sums[half], f.bias[half], a_sum);
      }
      const float32x4_t outputs[2] = {vuzp1q_f32(sums[0], sums[1]), vuzp2q_f32(sums[0], sums[1])};
      for (int r = 2 * pair; r < std::min(tile.rows, 2 * pair + 2); ++r)
        for (int i = 0; i < kStreams; ++i) y[r][rows[i]] = outputs[r % 2][i];
    }
    for (int& row : rows) ++row;
  }
}

inline void multiply_four(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  for_each_run(w, steps, [&](Range run) { multiply_four_run(w, tile, y, run); });
}

}  // namespace lapidary::cpu::in_order
