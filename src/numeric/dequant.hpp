// Weights from the bytes of the file to float32.
#pragma once

#include <cstddef>

#include "graph/storage.hpp"

namespace lapidary::numeric {

// A row of a matrix as it is stored.
struct StoredRow {
  const graph::Storage& storage;
  int cols = 0;
  const std::byte* values = nullptr;
  const std::byte* scales = nullptr;  // packed encodings
  const std::byte* biases = nullptr;  // affine only
};

// out[i] = element begin + i of the row, for i < count. In packed encodings begin and count are multiples of 8.
// Reads exactly the bytes of those elements and of their scales.
void dequantise(const StoredRow& row, int begin, int count, float* out);

}  // namespace lapidary::numeric
