// Vectors of 16 bytes, which every target has, and the weaving of two of them: how small numbers become wide ones, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "numeric/math.hpp"

namespace lapidary::numeric {

using Bytes = std::uint8_t __attribute__((vector_size(16)));
using Halves = std::uint16_t __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(16)));

// a[0], b[0], a[1], b[1]... of the lower or the upper halves
[[gnu::always_inline]] inline Bytes weave_low(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
[[gnu::always_inline]] inline Bytes weave_high(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
[[gnu::always_inline]] inline Halves weave_low(Halves a, Halves b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
[[gnu::always_inline]] inline Halves weave_high(Halves a, Halves b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }

// a * b + c, each as the scalar `fused`
[[gnu::always_inline]] inline Floats fused(Floats a, Floats b, Floats c) {
  Floats result;
  for (int i = 0; i < 4; ++i) result[i] = fused(a[i], b[i], c[i]);
  return result;
}

template <class Vector>
[[gnu::always_inline]] inline Vector read_vector(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

}  // namespace lapidary::numeric
