// What the products of two and of four rows have in common: q8_i8mm_two.hpp and q8_i8mm_four.hpp.
//
// Weight rows are taken in pairs, activation rows as well: 8 bytes of two weight rows are zipped into a vector and meet 8 odd
// activations of two rows; their lower halves, shifted up, meet the even ones.
#pragma once

#include "cpu/q8_i8mm_in_order.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

template <int Pairs>
struct PairFlow {
  const std::uint8_t* weights[kStreams];
  uint8x16_t w[kStreams];  // the first half of the next group
  const std::int8_t* q;
  const std::uint32_t* scales;  // of the group before, like all below
  const float* factors;
  int32x4_t dots[2][Pairs];  // [weight pair][activation pair]: 2 x 2 sums each
  float32x4_t sums[2][Pairs];
  uint32x4_t upper;

  void load_first() {
    for (int i = 0; i < kStreams; ++i) load_at<0>(weights[i], w[i]);
  }
  void clear_sums() {
    for (auto& pair : sums)
      for (float32x4_t& sum : pair) sum = vdupq_n_f32(0.0f);
  }
};

template <int Pairs>
void multiply_pairs(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  for_each_step<PairFlow<Pairs>>(w, tile, steps, [&](const PairFlow<Pairs>& f, const int* rows) {
    for (int p = 0; p < Pairs; ++p) {
      const float32x4_t outputs[2] = {vuzp1q_f32(f.sums[0][p], f.sums[1][p]), vuzp2q_f32(f.sums[0][p], f.sums[1][p])};
      for (int r = 2 * p; r < std::min(tile.rows, 2 * p + 2); ++r)
        for (int i = 0; i < kStreams; ++i) y[r][rows[i]] = outputs[r % 2][i];
    }
  });
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
