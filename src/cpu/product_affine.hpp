// Products of a few lines with affine weights, multiplied as they are dequantised: the sums of dot.hpp to the bit, without a panel.
#pragma once

#include "cpu/product.hpp"

namespace lapidary::cpu {

// More lines are faster with a panel, dequantised once for all of them.
inline bool multiplies_affine(const Lines& lines, const link::Matrix& w) {
  return w.storage.encoding == Encoding::affine && lines.count <= 4;
}

// As multiply_panel.
void multiply_affine(const Lines& lines, const link::Matrix& w, int expert, int first, int count, Products& y);

}  // namespace lapidary::cpu
