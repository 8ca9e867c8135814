// Products with weights of bfloat16, read from the mapped bytes as they are: the sums of dot.hpp to the bit, without a panel.
#pragma once

#include "cpu/product.hpp"

namespace lapidary::cpu {

// More lines are faster with a panel, widened once for all of them.
inline bool multiplies_bf16(const Lines& lines, const link::Matrix& w) {
  return w.storage.encoding == Encoding::plain && w.storage.type == DType::bf16 && lines.count <= 16;
}

// As multiply_panel.
void multiply_bf16(const Lines& lines, const link::Matrix& w, int expert, int first, int count, Products& y);

}  // namespace lapidary::cpu
