// Weights from the bytes of the file to float32.
#pragma once

#include "link/weight.hpp"

namespace lapidary::cpu {

// out[i] = element begin + i of a row, for i < count. In packed encodings begin and count are multiples of 8.
// Reads exactly the bytes of those elements and of their scales.
void dequantise(const link::Matrix& matrix, int expert, int row, int begin, int count, float* out);

}  // namespace lapidary::cpu
