// Products with weights of bfloat16, read from the mapped bytes as they are: the sums of dot.hpp to the bit, without a panel.
// Files that are compiled for instructions of their own include
// this, so nothing here may have a name that the linker sees.
#pragma once

#include <bit>
#include <cstring>

#include "cpu/dot.hpp"
#include "cpu/product.hpp"
#include "cpu/product_bf16_row.hpp"
#include "cpu/vec.hpp"
#include "numeric/bf16.hpp"
#include "numeric/math.hpp"
#include "numeric/weave.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kTogether = 4;  // weight rows walked side by side
constexpr int kLine = 32;     // weights of a cache line
constexpr std::size_t kTogetherSums = kTogether * kLanes;
#if defined(__AVX512F__)
constexpr int kBf16Lines = 8, kMostBf16Lines = 32;  // that meet them at a time, and that do without a panel
constexpr int kBf16Sums = 32;                       // of lines and weight rows: they and their operands must fit the registers
#else
constexpr int kBf16Lines = 4, kMostBf16Lines = 16;
constexpr int kBf16Sums = 8;
#endif

// Bytes between what is multiplied and what is fetched into the cache of the second level, at least.
constexpr std::size_t kAhead = 16384;

// Weight rows walked side by side.
struct WeightRows {
  const std::byte* values;
  std::size_t row_bytes;
  int cols;

  // What to fetch meanwhile: the bytes that come later, in the order in which they lie. Processors read one stream best.
  const std::byte* ahead() const { return values + std::max(kTogether * row_bytes, kAhead); }
  const std::byte* at(int row, int col) const { return values + row * row_bytes + static_cast<std::size_t>(col) * 2; }
  float one(int row, int col) const {
    std::uint16_t bits;
    std::memcpy(&bits, at(row, col), sizeof bits);
    return numeric::from_bf16(bits);
  }
  Vec eight(int row, int col) const {
    using numeric::Halves;
    const auto halves = numeric::read_vector<Halves>(at(row, col));
    return std::bit_cast<Vec>(std::array<Halves, 2>{numeric::weave_low(Halves{}, halves), numeric::weave_high(Halves{}, halves)});
  }
#if defined(__AVX512F__)
  // Of this row and the next.
  __m512 pair(int row, int col) const {
    const auto load = [](const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); };
    const __m256i halves = _mm256_inserti128_si256(_mm256_castsi128_si256(load(at(row, col))), load(at(row + 1, col)), 1);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
#endif
};

// sums[r][c][i % kLanes] += x[r][i] * w[c][i] for whole lanes i from `begin` on; returns where they end. sums: [R, kTogether, kLanes]
template <int R, int C>
int multiply_bf16_lanes(int begin, const float* const* x, const WeightRows& w, float* sums) {
  const std::byte* const ahead = w.ahead();
#if defined(__AVX512F__)
  if constexpr (C % 2 == 0) {
    const int end = w.cols / kLanes * kLanes;
    dot_pairs<R, C / 2>(x, begin, end, [&](int p, int i) __attribute__((always_inline)) {
      if (p == 0) __builtin_prefetch(ahead + static_cast<std::size_t>(i) * 2 * C, 0, 2);
      return w.pair(2 * p, i);
    }, sums, kTogetherSums);
    return end;
  }
#endif
  Vec sum[R][C];
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sum[r][c] = Vec::load(sums + r * kTogetherSums + c * kLanes);
  const auto step = [&](int i) {
    Vec left[R];
    for (int r = 0; r < R; ++r) left[r] = Vec::load(x[r] + i);
    for (int c = 0; c < C; ++c) {
      const Vec right = w.eight(c, i);
      for (int r = 0; r < R; ++r) sum[r][c] = fused(left[r], right, sum[r][c]);
    }
  };
  int i = begin;
  for (; i + kLine <= w.cols; i += kLine) {
    for (int c = 0; c < C; ++c) __builtin_prefetch(ahead + static_cast<std::size_t>(i) * 2 * C + c * 64, 0, 2);
    for (int j = 0; j < kLine; j += kLanes) step(i + j);
  }
  for (; i + kLanes <= w.cols; i += kLanes) step(i);
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sum[r][c].store(sums + r * kTogetherSums + c * kLanes);
  return i;
}

// The same to the end.
template <int R, int C>
void multiply_bf16_from(int begin, const float* const* x, const WeightRows& w, float* sums) {
  for (int i = multiply_bf16_lanes<R, C>(begin, x, w, sums); i < w.cols; ++i)
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) {
        float& lane = sums[r * kTogetherSums + c * kLanes + i % kLanes];
        lane = numeric::fused(x[r][i], w.one(c, i), lane);
      }
}

// As many lines as fit the registers, up to R; returns how many. sums: [R, kTogether, kLanes]
template <int R>
int multiply_bf16_lines(const float* const* x, int lines, WeightRows w, int rows, float* sums) {
  if constexpr (R > 1)
    if (lines < R) return multiply_bf16_lines<R - 1>(x, lines, w, rows, sums);
  constexpr int C = std::min(kTogether, kBf16Sums / R);
  int c = 0;
  for (; c + C <= rows; c += C) {
    int begin = 0;
#if defined(__aarch64__)
    if constexpr (R == 1) {
      begin = w.cols / FourRows::kLineWeights * FourRows::kLineWeights;
      if (begin) FourRows(x[0], w.values, w.row_bytes, w.ahead()).multiply(begin, sums);
    }
#endif
    if (begin < w.cols) multiply_bf16_from<R, C>(begin, x, w, sums + c * kLanes);
    w.values += C * w.row_bytes;
  }
  for (; c < rows; ++c) {
    multiply_bf16_from<R, 1>(0, x, w, sums + c * kLanes);
    w.values += w.row_bytes;
  }
  return R;
}

// More lines are faster with a panel, widened once for all of them.
bool multiplies_bf16(const Lines& lines, const link::Matrix& w) {
  return w.storage.encoding == Encoding::plain && w.storage.type == DType::bf16 && lines.count <= kMostBf16Lines;
}

// As FloatProducts::multiply_panel.
[[gnu::noinline]] void multiply_bf16(const Lines& lines, const link::Matrix& w, int expert, int first, int count, Products& y) {
  const std::byte* const values = w.values + static_cast<std::size_t>(expert) * w.expert_bytes;
  for (int j = 0; j < count; j += kTogether) {
    const WeightRows weights{values + static_cast<std::size_t>(first + j) * w.row_bytes, w.row_bytes, w.cols};
    const int rows = std::min(kTogether, count - j);
    for (int l = 0; l < lines.count;) {
      alignas(64) float sums[kBf16Lines * kTogetherSums] = {};
      const int together = multiply_bf16_lines<kBf16Lines>(lines.x.data() + l, lines.count - l, weights, rows, sums);
      for (int r = 0; r < together; ++r) sum_lanes(sums + r * kTogetherSums, rows, &y[l + r][j]);
      l += together;
    }
  }
}

}  // namespace
}  // namespace lapidary::cpu
