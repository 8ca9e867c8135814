// The one inner loop of all products: element i goes to virtual lane i % 8, ascending, and the lanes are summed by a fixed
// tree. A tile holds R x C sums in registers; its size decides speed, never a result.
#pragma once

#include "cpu/vec.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

// sums[r * sum_stride + c * kLanes + i % kLanes] += x[r][i] * w[c * w_stride + i] for i < count
template <int R, int C>
inline void dot_tile(const float* const* x, const float* w, std::size_t w_stride, int count, float* sums,
                     std::size_t sum_stride) {
  const int whole = count / kLanes * kLanes;
  // One batch of the lanes after the other, so that a tile of R x C registers is enough.
  for (int b = 0; b < kLanes; b += Vec::kBatchLanes) {
    Vec::Batch sum[R][C];
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) sum[r][c] = Vec::Batch::load_unaligned(sums + r * sum_stride + c * kLanes + b);
    }
    for (int i = b; i < whole; i += kLanes) {
      Vec::Batch left[R];
      for (int r = 0; r < R; ++r) left[r] = Vec::Batch::load_unaligned(x[r] + i);
      for (int c = 0; c < C; ++c) {
        const auto right = Vec::Batch::load_unaligned(w + c * w_stride + i);
        for (int r = 0; r < R; ++r) sum[r][c] = xsimd::fma(left[r], right, sum[r][c]);
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) sum[r][c].store_unaligned(sums + r * sum_stride + c * kLanes + b);
    }
  }
  for (int i = whole; i < count; ++i) {
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) {
        float& lane = sums[r * sum_stride + c * kLanes + i % kLanes];
        lane = numeric::fused(x[r][i], w[c * w_stride + i], lane);
      }
    }
  }
}

// out[c] = x . w_c for C vectors that lie w_stride apart
template <int C>
inline void dot(const float* x, const float* w, std::size_t w_stride, int count, float* out) {
  float sums[C * kLanes] = {};
  dot_tile<1, C>(&x, w, w_stride, count, sums, 0);
  for (int c = 0; c < C; ++c) out[c] = sum_lanes(sums + c * kLanes);
}

}  // namespace
}  // namespace lapidary::cpu
