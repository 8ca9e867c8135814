// A panel of weight rows times activation rows, for the vectors of whatever instructions a file is compiled for. Files that are
// compiled for instructions of their own include this, so nothing here may have a name that the linker sees.
#pragma once

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

// Sums that do not wait for each other; as many as registers hold beside the factors.
#if defined(__AVX512F__)
constexpr int kRegisterSums = 24, kRegisterLanes = 16;

float multiply_registers(int times) {
  volatile float unknown = 0.5f;  // or the compiler would know the result
  const __m512 factor = _mm512_set1_ps(unknown);
  __m512 sums[kRegisterSums];
  for (__m512& sum : sums) sum = factor;
  for (int i = 0; i < times; ++i)
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(factor, factor, sum);
  float all = 0.0f;
  for (const __m512& sum : sums) all += _mm512_cvtss_f32(sum);
  return all;
}
#else
#if defined(__aarch64__)
constexpr int kRegisterSums = 24 / Vec::kBatches, kRegisterLanes = kLanes;
#else
constexpr int kRegisterSums = 12 / Vec::kBatches, kRegisterLanes = kLanes;
#endif

float multiply_registers(int times) {
  volatile float unknown = 0.5f;
  const Vec factor = Vec::broadcast(unknown);
  Vec sums[kRegisterSums];
  for (Vec& sum : sums) sum = factor;
  for (int i = 0; i < times; ++i)
    for (Vec& sum : sums) sum = fused(factor, factor, sum);
  float all = 0.0f;
  for (const Vec& sum : sums) all += largest_lane(sum);
  return all;
}
#endif

// Of the instructions of this file; dequantise: as numeric::dequantise.
template <auto dequantise>
constexpr FloatProducts kFloatProducts{multiply_panel<dequantise>, multiply_row<dequantise>, multiply_registers, kRegisterSums * kRegisterLanes};

}  // namespace
}  // namespace lapidary::cpu
