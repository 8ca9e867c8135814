// A weight as a kernel sees it: pointers into the mapped file, at any alignment.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "checkpoint/storage.hpp"
#include "numeric/dequant.hpp"

namespace lapidary::link {

// Bounds of a clipped matrix: of its input and of its products.
struct Clip {
  float input_min = -std::numeric_limits<float>::infinity(), input_max = -input_min;
  float output_min = input_min, output_max = input_max;

  bool operator==(const Clip&) const = default;
  bool same_input(const Clip& other) const { return input_min == other.input_min && input_max == other.input_max; }
};

// [experts,] rows, cols. Row r of expert e: values + e * expert_bytes + r * row_bytes, its scales and biases alike.
struct Matrix {
  Storage storage{};
  std::int32_t experts = 0;  // 0 = one matrix
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  const std::byte* values = nullptr;
  const std::byte* scales = nullptr;  // packed encodings: one per group, of storage.type
  const std::byte* biases = nullptr;  // affine only
  std::size_t row_bytes = 0;
  std::size_t expert_bytes = 0;
  std::size_t scale_row_bytes = 0;    // of biases too
  std::size_t scale_expert_bytes = 0;
  Clip clip{};

  [[gnu::always_inline]] numeric::StoredRow row(int expert, int r) const {
    assert(r >= 0 && r < rows);
    const std::size_t e = static_cast<std::size_t>(expert), at = static_cast<std::size_t>(r);
    const std::size_t scale_row = e * scale_expert_bytes + at * scale_row_bytes;
    return {storage, cols, values + e * expert_bytes + at * row_bytes, scales ? scales + scale_row : nullptr,
            biases ? biases + scale_row : nullptr};
  }

  std::size_t total_bytes() const {
    const std::size_t count = static_cast<std::size_t>(experts ? experts : 1) * rows;
    return count * (row_bytes + scale_row_bytes * (biases ? 2 : scales ? 1 : 0));
  }
};

}  // namespace lapidary::link
