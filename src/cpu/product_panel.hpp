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

// Weight rows of a tile of 4 lines: its sums and operands must fit the registers.
#if defined(__aarch64__)
constexpr int kTileWeights = 4;
#else
constexpr int kTileWeights = 2;
#endif

// R lines with all weight rows of a panel block.
template <int R>
void multiply_lines(const float* const* x, int offset, const float* panel, int weights, int count, float* sums) {
  constexpr int C = R == 1 ? 2 * kTileWeights : kTileWeights;
  const float* at[R];
  for (int r = 0; r < R; ++r) at[r] = x[r] + offset;
  int c = 0;
  for (; c + C <= weights; c += C) {
    dot_tile<R, C>(at, panel + c * kPanelStride, kPanelStride, count, sums + c * kLanes, kLineSums);
  }
  for (; c < weights; ++c) dot_tile<R, 1>(at, panel + c * kPanelStride, kPanelStride, count, sums + c * kLanes, kLineSums);
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
    for (int l = 0; l < lines.count;) {
      const float* const* x = lines.x.data() + l;
      float* line_sums = sums + l * kLineSums;
      switch (std::min(lines.count - l, 4)) {
        case 4: multiply_lines<4>(x, k, panel, count, length, line_sums); l += 4; break;
        case 3: multiply_lines<3>(x, k, panel, count, length, line_sums); l += 3; break;
        case 2: multiply_lines<2>(x, k, panel, count, length, line_sums); l += 2; break;
        default: multiply_lines<1>(x, k, panel, count, length, line_sums); l += 1; break;
      }
    }
  }
  for (int l = 0; l < lines.count; ++l) {
    for (int j = 0; j < count; ++j) y[l][j] = sum_lanes(sums + l * kLineSums + j * kLanes);
  }
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

}  // namespace
}  // namespace lapidary::cpu
