// Products of a few lines with affine weights, multiplied as they are dequantised: the sums of dot.hpp to the bit, without a panel.
// Files that are compiled for instructions of their own include this, so nothing here may have a name that the linker sees.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "cpu/product.hpp"
#include "cpu/product_affine_x86.hpp"
#include "cpu/vec.hpp"
#include "numeric/affine.hpp"

namespace lapidary::cpu {
namespace {

using numeric::Affine;
using numeric::Floats;
using numeric::read_number;
using numeric::read_vector;
using numeric::StoredRow;

#if !defined(__AVX2__)
struct OneRow {
  static constexpr int kRows = 1;
};

// As in product_affine_x86.hpp.
template <class Rows, int Sets, int R, int Bits>
void multiply_affine_rows(const float* const* x, const std::array<StoredRow, 1>& rows, float (*y)[1]) {
  const StoredRow& w = rows[0];
  Floats sum[R][2] = {};
  const Storage& storage = w.storage;
  const std::byte* from = w.values;
  for (int begin = 0, group = 0; begin < w.cols; begin += storage.group, ++group) {
    const Affine affine(read_number(storage.type, w.scales, group), read_number(storage.type, w.biases, group));
    numeric::for_each_eight<Bits>(from, storage.group, affine, [&](int i, Floats low, Floats high) {
      for (int r = 0; r < R; ++r) {
        sum[r][0] = numeric::fused(read_vector<Floats>(x[r] + begin + i), low, sum[r][0]);
        sum[r][1] = numeric::fused(read_vector<Floats>(x[r] + begin + i + 4), high, sum[r][1]);
      }
    });
    from += storage.group / 8 * Bits;
  }
  for (int r = 0; r < R; ++r) {
    float lanes[kLanes];
    std::memcpy(lanes, sum[r], sizeof lanes);
    y[r][0] = sum_lanes(lanes);
  }
}
#endif

// Lines and weight rows that meet at a time, and how many lines do without a panel: more of them are faster with one, dequantised once
// for all.
#if defined(__AVX512F__)
using AffineRows = TwoRows;
constexpr int kAffineLines = 8, kAffineSets = 2, kMostAffineLines = 24;
#elif defined(__AVX2__)
using AffineRows = OneRow;
constexpr int kAffineLines = 4, kAffineSets = 2, kMostAffineLines = 12;
#else
using AffineRows = OneRow;
constexpr int kAffineLines = 4, kAffineSets = 1, kMostAffineLines = 4;
#endif
constexpr int kAffineTogether = kAffineSets * AffineRows::kRows;
using AffineWeights = std::array<StoredRow, kAffineTogether>;

template <int R>
void multiply_affine_rows(const float* const* x, const AffineWeights& w, float (*y)[kAffineTogether]) {
  switch (w[0].storage.bits) {
    case 2: return multiply_affine_rows<AffineRows, kAffineSets, R, 2>(x, w, y);
    case 3: return multiply_affine_rows<AffineRows, kAffineSets, R, 3>(x, w, y);
    case 4: return multiply_affine_rows<AffineRows, kAffineSets, R, 4>(x, w, y);
    case 5: return multiply_affine_rows<AffineRows, kAffineSets, R, 5>(x, w, y);
    case 6: return multiply_affine_rows<AffineRows, kAffineSets, R, 6>(x, w, y);
    default: assert(w[0].storage.bits == 8); return multiply_affine_rows<AffineRows, kAffineSets, R, 8>(x, w, y);
  }
}

// As many lines as meet weights at a time, up to R, from line l on; returns how many. The first `count` products are wanted.
template <int R>
int multiply_affine_lines(const Lines& lines, int l, const AffineWeights& w, int count, int j, Products& y) {
  if constexpr (R > 1)
    if (lines.count - l < R) return multiply_affine_lines<R - 1>(lines, l, w, count, j, y);
  float products[R][kAffineTogether];
  multiply_affine_rows<R>(lines.x.data() + l, w, products);
  for (int r = 0; r < R; ++r) std::copy_n(products[r], count, &y[l + r][j]);
  return R;
}

bool multiplies_affine(const Lines& lines, const link::Matrix& w) {
  return w.storage.encoding == Encoding::affine && lines.count <= kMostAffineLines;
}

// As FloatProducts::multiply_panel.
[[gnu::noinline]] void multiply_affine(const Lines& lines, const link::Matrix& w, int expert, int first, int count, Products& y) {
  for (int j = 0; j < count; j += kAffineTogether) {
    const auto row = [&](int i) { return w.row(expert, first + std::min(j + i, count - 1)); };  // the last one again and again
    const AffineWeights weights = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return AffineWeights{row(static_cast<int>(I))...};
    }(std::make_index_sequence<kAffineTogether>());
    for (int l = 0; l < lines.count;)
      l += multiply_affine_lines<kAffineLines>(lines, l, weights, std::min(kAffineTogether, count - j), j, y);
  }
}

}  // namespace
}  // namespace lapidary::cpu
