// Which tensors a GPU can read where they are mapped.
#pragma once

#include <cstddef>

#include "link/link.hpp"

namespace lapidary::gpu {

// It reads numbers at multiples of their own size only: packed values as words of 4 bytes, plain ones and scales as their type.
bool is_aligned(const link::Matrix& matrix);

// Bytes of the matrices that are not: they are copied.
std::size_t misaligned_bytes(const link::Program& program);

}  // namespace lapidary::gpu
