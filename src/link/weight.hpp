// A weight as a kernel sees it: pointers into the mapped file, at any alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/storage.hpp"

namespace lapidary::link {

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

  std::size_t total_bytes() const {
    const std::size_t count = static_cast<std::size_t>(experts ? experts : 1) * rows;
    return count * (row_bytes + scale_row_bytes * (biases ? 2 : scales ? 1 : 0));
  }
};

}  // namespace lapidary::link
