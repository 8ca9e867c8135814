// The one inner loop of all products: element i goes to virtual lane i % 8, ascending, and the lanes are summed by a fixed
// tree. A tile holds R x C sums in registers; its size decides speed, never a result.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "cpu/vec.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

#if defined(__AVX512F__)
// The lanes of two weight rows side by side.
[[gnu::always_inline]] inline __m512 load_pair(const float* first, const float* second) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(first)), _mm256_loadu_ps(second), 1);
}

// sums[r * sum_stride + c * kLanes + i % kLanes] += x[r][i] * w[c][i] for two rows of each pair and whole lanes i from begin to end.
// pair_at(p, i): those of pair p
template <int R, int Pairs, class PairAt>
[[gnu::always_inline]] inline void dot_pairs(const float* const* x, int begin, int end, PairAt pair_at, float* sums, std::size_t sum_stride) {
  __m512 sum[R][Pairs];
  for (int r = 0; r < R; ++r)
    for (int p = 0; p < Pairs; ++p) sum[r][p] = _mm512_loadu_ps(sums + r * sum_stride + p * 2 * kLanes);
  for (int i = begin; i < end; i += kLanes) {
    __m512 right[Pairs];
    for (int p = 0; p < Pairs; ++p) right[p] = pair_at(p, i);
    for (int r = 0; r < R; ++r) {
      const __m512 left = _mm512_broadcast_f32x8(_mm256_loadu_ps(x[r] + i));
      for (int p = 0; p < Pairs; ++p) sum[r][p] = _mm512_fmadd_ps(left, right[p], sum[r][p]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int p = 0; p < Pairs; ++p) _mm512_storeu_ps(sums + r * sum_stride + p * 2 * kLanes, sum[r][p]);
}
#endif

// The same with vectors of at most kLanes, for a tile of R x C.
template <int R, int C>
[[gnu::always_inline]] inline void dot_lanes(const float* const* x, const float* w, std::size_t w_stride, int whole, float* sums,
                                             std::size_t sum_stride) {
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
}

// sums[r * sum_stride + c * kLanes + i % kLanes] += x[r][i] * w[c * w_stride + i] for i < count
template <int R, int C>
inline void dot_tile(const float* const* x, const float* w, std::size_t w_stride, int count, float* sums, std::size_t sum_stride) {
  const int whole = count / kLanes * kLanes;
#if defined(__AVX512F__)
  if constexpr (C % 2 == 0) {
    const auto pair_at = [&](int p, int i) { return load_pair(w + 2 * p * w_stride + i, w + (2 * p + 1) * w_stride + i); };
    dot_pairs<R, C / 2>(x, 0, whole, pair_at, sums, sum_stride);
  } else
#endif
  dot_lanes<R, C>(x, w, w_stride, whole, sums, sum_stride);
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
  sum_lanes(sums, C, out);
}

}  // namespace
}  // namespace lapidary::cpu
