#include "link/numeric.hpp"

namespace lapidary::link {

bool has_q8(const Matrix& matrix) {
  const Storage& storage = matrix.storage;
  return storage.encoding == Encoding::affine && storage.type == DType::bf16 && (storage.bits == 4 || storage.bits == 8);
}

bool multiplies(graph::Op op) {
  using enum graph::Op;
  return op == linear || op == linear_gelu_mul || op == linear_gelu_gate || op == linear_softcap || op == expert_gelu_mul ||
         op == expert_linear;
}

std::size_t scale_words(const Matrix& matrix) {
  const std::size_t rows = static_cast<std::size_t>(matrix.rows + kScaleRows - 1) / kScaleRows * kScaleRows;
  return rows * (matrix.cols / matrix.storage.group);
}

}  // namespace lapidary::link
