// A panel of weight rows times activation rows, for the vectors of whatever instructions a file is compiled for. Files that are
// compiled for instructions of their own include this, so nothing here may have a name that the linker sees.
#pragma once

#include <cstring>

#include "cpu/dot.hpp"
#include "cpu/product_affine.hpp"
#include "cpu/product_bf16.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kBlock = 512;                // inputs; a panel of them is 32 KiB
constexpr int kPanelStride = kBlock + 16;  // weight rows a power of two apart would compete for the same cache lines

// Lane sums of a panel: [line][weight row][lane]
constexpr std::size_t kLineSums = kPanel * kLanes;

// Of a tile: its sums and operands must fit the registers.
#if defined(__AVX512F__)
constexpr int kTileLines = 8, kTileWeights = 4;
#elif defined(__aarch64__)
constexpr int kTileLines = 4, kTileWeights = 4;
#else
constexpr int kTileLines = 4, kTileWeights = 2;
#endif

// As many lines as a tile takes, up to R, with all weight rows of a panel block; returns how many.
template <int R>
int multiply_lines(const float* const* x, int lines, int offset, const float* panel, int weights, int count, float* sums) {
  if constexpr (R > 1)
    if (lines < R) return multiply_lines<R - 1>(x, lines, offset, panel, weights, count, sums);
  constexpr int C = R == 1 ? 2 * kTileWeights : kTileWeights;
  const float* at[R];
  for (int r = 0; r < R; ++r) at[r] = x[r] + offset;
  int c = 0;
  for (; c + C <= weights; c += C) dot_tile<R, C>(at, panel + c * kPanelStride, kPanelStride, count, sums + c * kLanes, kLineSums);
  for (; c < weights; ++c) dot_tile<R, 1>(at, panel + c * kPanelStride, kPanelStride, count, sums + c * kLanes, kLineSums);
  return R;
}

// As FloatProducts::multiply_panel; dequantise: as numeric::dequantise.
template <auto dequantise>
void multiply_panel(const Lines& lines, const link::Matrix& w, int expert, int first, int count, Products& y) {
  if (multiplies_bf16(lines, w)) return multiply_bf16(lines, w, expert, first, count, y);
  if (multiplies_affine(lines, w)) return multiply_affine(lines, w, expert, first, count, y);
  alignas(64) float panel[kPanel * kPanelStride];
  alignas(64) float sums[kMaxLines * kLineSums];
  std::fill_n(sums, lines.count * kLineSums, 0.0f);
  for (int k = 0; k < w.cols; k += kBlock) {
    const int length = std::min(kBlock, w.cols - k);
    for (int j = 0; j < count; ++j) dequantise(w.row(expert, first + j), k, length, panel + j * kPanelStride);
    for (int l = 0; l < lines.count;)
      l += multiply_lines<kTileLines>(lines.x.data() + l, lines.count - l, k, panel, count, length, sums + l * kLineSums);
  }
  for (int l = 0; l < lines.count; ++l) sum_lanes(sums + l * kLineSums, count, y[l].data());
}

// As FloatProducts::multiply_row.
template <auto dequantise>
float multiply_row(const float* x, const link::Matrix& w, int row) {
  alignas(64) float weights[kBlock];
  float sums[kLanes] = {};
  for (int k = 0; k < w.cols; k += kBlock) {
    const int length = std::min(kBlock, w.cols - k);
    const float* at[] = {x + k};
    dequantise(w.row(0, row), k, length, weights);
    dot_tile<1, 1>(at, weights, kBlock, length, sums, 0);
  }
  return sum_lanes(sums);
}

// The widest vectors, and how many of them are sums that do not wait for each other: three quarters of the registers.
#if defined(__AVX512F__)
struct Widest {
  __m512 floats;
  static Widest broadcast(float value) { return {_mm512_set1_ps(value)}; }
};
inline Widest fused(Widest a, Widest b, Widest c) { return {_mm512_fmadd_ps(a.floats, b.floats, c.floats)}; }
constexpr int kWidestSums = 24;
#else
using Widest = Vec;
#if defined(__aarch64__)
constexpr int kWidestSums = 24 / Vec::kBatches;
#else
constexpr int kWidestSums = 12 / Vec::kBatches;
#endif
#endif

float multiply_registers(int times) {
  volatile float unknown = 0.5f;  // or the compiler would know the result
  const Widest factor = Widest::broadcast(unknown);
  Widest sums[kWidestSums];
  for (Widest& sum : sums) sum = factor;
  for (int i = 0; i < times; ++i)
    for (Widest& sum : sums) sum = fused(factor, factor, sum);
  float all = 0.0f;
  for (const Widest& sum : sums) {
    float first;
    std::memcpy(&first, &sum, sizeof first);
    all += first;
  }
  return all;
}

// Of the instructions of this file; dequantise: as numeric::dequantise.
template <auto dequantise>
constexpr FloatProducts kFloatProducts{multiply_panel<dequantise>, multiply_row<dequantise>, multiply_registers,
                                      kWidestSums * static_cast<double>(sizeof(Widest) / sizeof(float))};

}  // namespace
}  // namespace lapidary::cpu
