// Products of a few lines with affine weights, multiplied as they are dequantised: the sums of dot.hpp to the bit, without a panel.
// Files that are compiled for instructions of their own include
// this, so nothing here may have a name that the linker sees.
#pragma once

#include "cpu/product.hpp"
#include "cpu/vec.hpp"
#include "numeric/affine.hpp"

namespace lapidary::cpu {
namespace {

using numeric::Affine;
using numeric::Floats;
using numeric::read_number;
using numeric::read_vector;
using numeric::StoredRow;

// y[r] = x[r] . w
template <int R, int Bits>
void multiply_affine_row(const float* const* x, const StoredRow& w, float* y) {
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
    y[r] = sum_lanes(lanes);
  }
}

template <int R>
void multiply_affine_row(const float* const* x, const StoredRow& w, float* y) {
  switch (w.storage.bits) {
    case 2: return multiply_affine_row<R, 2>(x, w, y);
    case 3: return multiply_affine_row<R, 3>(x, w, y);
    case 4: return multiply_affine_row<R, 4>(x, w, y);
    case 5: return multiply_affine_row<R, 5>(x, w, y);
    case 6: return multiply_affine_row<R, 6>(x, w, y);
    default: assert(w.storage.bits == 8); return multiply_affine_row<R, 8>(x, w, y);
  }
}

// More lines are faster with a panel, dequantised once for all of them.
bool multiplies_affine(const Lines& lines, const link::Matrix& w) {
  return w.storage.encoding == Encoding::affine && lines.count <= 4;
}

// As FloatProducts::multiply_panel.
[[gnu::noinline]] void multiply_affine(const Lines& lines, const link::Matrix& w, int expert, int first, int count, Products& y) {
  for (int j = 0; j < count; ++j) {
    const StoredRow row = w.row(expert, first + j);
    float products[4] = {};
    switch (lines.count) {
      case 4: multiply_affine_row<4>(lines.x.data(), row, products); break;
      case 3: multiply_affine_row<3>(lines.x.data(), row, products); break;
      case 2: multiply_affine_row<2>(lines.x.data(), row, products); break;
      default: multiply_affine_row<1>(lines.x.data(), row, products); break;
    }
    for (int l = 0; l < lines.count; ++l) y[l][j] = products[l];
  }
}

}  // namespace
}  // namespace lapidary::cpu
