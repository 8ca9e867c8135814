// Products with weights of bfloat16, read from the mapped bytes as they are: the sums of dot.hpp to the bit, without a panel.
// Files that are compiled for instructions of their own include
// this, so nothing here may have a name that the linker sees.
#pragma once

#include <bit>
#include <cstring>

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
};

// sums[r][c][i % kLanes] += x[r][i] * w[c][i] for i from `begin` on. sums: [R, kTogether, kLanes]
template <int R, int C>
void multiply_bf16_from(int begin, const float* const* x, const WeightRows& w, float* sums) {
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
  const std::byte* const ahead = w.ahead();
  int i = begin;
  for (; i + kLine <= w.cols; i += kLine) {
    for (int c = 0; c < C; ++c) __builtin_prefetch(ahead + static_cast<std::size_t>(i) * 2 * C + c * 64, 0, 2);
    for (int j = 0; j < kLine; j += kLanes) step(i + j);
  }
  for (; i + kLanes <= w.cols; i += kLanes) step(i);
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sum[r][c].store(sums + r * kTogetherSums + c * kLanes);
  for (; i < w.cols; ++i)
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) {
        float& lane = sums[r * kTogetherSums + c * kLanes + i % kLanes];
        lane = numeric::fused(x[r][i], w.one(c, i), lane);
      }
}

// sums: [R, kTogether, kLanes]
template <int R>
void multiply_bf16_lines(const float* const* x, WeightRows w, int rows, float* sums) {
  constexpr int C = R <= 2 ? 4 : 2;  // sums and operands must fit the registers
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
}

// More lines are faster with a panel, widened once for all of them.
bool multiplies_bf16(const Lines& lines, const link::Matrix& w) {
  return w.storage.encoding == Encoding::plain && w.storage.type == DType::bf16 && lines.count <= 16;
}

// As FloatProducts::multiply_panel.
[[gnu::noinline]] void multiply_bf16(const Lines& lines, const link::Matrix& w, int expert, int first, int count, Products& y) {
  const std::byte* const values = w.values + static_cast<std::size_t>(expert) * w.expert_bytes;
  for (int j = 0; j < count; j += kTogether) {
    const WeightRows weights{values + static_cast<std::size_t>(first + j) * w.row_bytes, w.row_bytes, w.cols};
    const int rows = std::min(kTogether, count - j);
    for (int l = 0; l < lines.count; l += 4) {
      const float* const* x = lines.x.data() + l;
      const int together = std::min(4, lines.count - l);
      alignas(64) float sums[4 * kTogetherSums] = {};
      switch (together) {
        case 4: multiply_bf16_lines<4>(x, weights, rows, sums); break;
        case 3: multiply_bf16_lines<3>(x, weights, rows, sums); break;
        case 2: multiply_bf16_lines<2>(x, weights, rows, sums); break;
        default: multiply_bf16_lines<1>(x, weights, rows, sums); break;
      }
      for (int r = 0; r < together; ++r)
        for (int c = 0; c < rows; ++c) y[l + r][j + c] = sum_lanes(sums + r * kTogetherSums + c * kLanes);
    }
  }
}

}  // namespace
}  // namespace lapidary::cpu
