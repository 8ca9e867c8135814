// From a format and a number of rows known at run time to those known to the compiler: what makes kernels of one set of
// instructions from their templates. Files that are compiled for instructions of their own include this, so nothing here may have a
// name that the linker sees.
#pragma once

#include "cpu/q8.hpp"

#define LAPIDARY_INLINE inline __attribute__((always_inline))

namespace lapidary::cpu {
namespace {

// Calls f.operator()<Bits, Group>().
template <class F>
void with_format(Q8Format format, F f) {
  const auto by_group = [&]<int Bits>() {
    switch (format.group) {
      case 32: return f.template operator()<Bits, 32>();
      case 64: return f.template operator()<Bits, 64>();
      default: return f.template operator()<Bits, 128>();
    }
  };
  if (format.bits == 4) by_group.template operator()<4>();
  else by_group.template operator()<8>();
}

// Calls f.operator()<Rows>().
template <class F>
void with_rows(int rows, F f) {
  switch (rows) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    case 4: return f.template operator()<4>();
    case 5: return f.template operator()<5>();
    case 6: return f.template operator()<6>();
    case 7: return f.template operator()<7>();
    default: return f.template operator()<8>();
  }
}

// Of a class with the static functions quantise<Bits, Group>(x, tile, groups) and multiply<Bits, Group, Rows>(w, tile, y, steps).
template <class Set>
constexpr Q8Kernels q8_kernels(const char* name, Order order) {
  return {.name = name, .order = order,
          .quantise = [](const float* const* x, const Q8Tile& tile, Range groups) {
            with_format(tile.format, [&]<int Bits, int Group>() { Set::template quantise<Bits, Group>(x, tile, groups); });
          },
          .multiply = [](const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
            with_format(w.format, [&]<int Bits, int Group>() {
              with_rows(tile.rows, [&]<int Rows>() { Set::template multiply<Bits, Group, Rows>(w, tile, y, steps); });
            });
          }};
}

// The four rows of a step.
struct Streams {
  const std::uint8_t* at[kStreams];
  int rows[kStreams];

  Streams(const Q8Weights& w, int step) {
    for (int i = 0; i < kStreams; ++i) {
      rows[i] = w.walk.row(step, i);
      at[i] = reinterpret_cast<const std::uint8_t*>(w.values) + std::min(rows[i], w.rows - 1) * w.row_bytes;
    }
  }

  // lanes: by stream
  LAPIDARY_INLINE void store(const float* lanes, int rows_of_matrix, float* y) const {
    for (int i = 0; i < kStreams; ++i)
      if (rows[i] < rows_of_matrix) y[rows[i]] = lanes[i];
  }
};

}  // namespace
}  // namespace lapidary::cpu
