#include "gpu/alignment.hpp"

namespace lapidary::gpu {

bool is_aligned(const link::Matrix& matrix) {
  const auto at_multiple = [](const std::byte* data, std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(data) % bytes == 0; };
  const std::size_t type_bytes = bytes_of(matrix.storage.type);
  if (matrix.storage.encoding == Encoding::plain) return at_multiple(matrix.values, type_bytes);
  return at_multiple(matrix.values, 4) && at_multiple(matrix.scales, type_bytes) &&
         (!matrix.biases || at_multiple(matrix.biases, type_bytes));
}

std::size_t misaligned_bytes(const link::Program& program) {
  std::size_t bytes = 0;
  for (const link::Matrix& matrix : program.matrices)
    if (matrix.values && !is_aligned(matrix)) bytes += matrix.total_bytes();
  return bytes;
}

}  // namespace lapidary::gpu
