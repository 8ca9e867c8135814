#include "link/numeric.hpp"

#include <algorithm>

namespace lapidary::link {

std::string_view name_of(Numeric numeric) { return numeric == Numeric::exact ? "exact" : "fast"; }

Numeric usual_numeric(const graph::Graph& graph) {
  constexpr std::int64_t kToyWeights = 100'000'000;
  std::int64_t weights = 0;
  for (const graph::WeightSlot& slot : graph.weights)
    if (slot.owner == graph::Owner::target)
      weights += std::int64_t{std::max(1, slot.experts)} * std::max(1, slot.rows) * slot.cols;
  return weights < kToyWeights ? Numeric::exact : Numeric::fast;
}

bool has_q8(const Matrix& matrix) {
  const Encoding encoding = matrix.storage.encoding;
  return (encoding == Encoding::affine && matrix.storage.type == DType::bf16) || encoding == Encoding::mxfp4 || encoding == Encoding::nvfp4;
}

bool is_aligned(const Matrix& matrix) {
  const auto at_multiple = [](const std::byte* data, std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(data) % bytes == 0; };
  const std::size_t type_bytes = bytes_of(matrix.storage.type);
  if (matrix.storage.encoding == Encoding::plain) return at_multiple(matrix.values, type_bytes);
  return at_multiple(matrix.values, 4) && at_multiple(matrix.scales, type_bytes) &&
         (!matrix.biases || at_multiple(matrix.biases, type_bytes));
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
