// From a format and a number of rows known at run time to those known to the compiler: what makes kernels of one set of
// instructions from their templates. Files that are compiled for instructions of their own include this, so nothing here may have a
// name that the linker sees.
#pragma once

#include "cpu/q8.hpp"

#define LAPIDARY_INLINE inline __attribute__((always_inline))

namespace lapidary::cpu {
namespace {

// Calls f.operator()<Group>().
template <class F>
void with_group(int group, F f) {
  switch (group) {
    case 16: return f.template operator()<16>();
    case 32: return f.template operator()<32>();
    case 64: return f.template operator()<64>();
    default: return f.template operator()<128>();
  }
}

// Calls f.operator()<codes>().
template <class F>
void with_codes(Codes codes, F f) {
  switch (codes) {
    case Codes::u2: return f.template operator()<Codes::u2>();
    case Codes::u3: return f.template operator()<Codes::u3>();
    case Codes::u4: return f.template operator()<Codes::u4>();
    case Codes::u5: return f.template operator()<Codes::u5>();
    case Codes::u6: return f.template operator()<Codes::u6>();
    case Codes::u8: return f.template operator()<Codes::u8>();
    case Codes::e2m1: return f.template operator()<Codes::e2m1>();
  }
}

// mxfp4 has groups of 32, nvfp4 of 16, affine codes have the others.
constexpr bool exists(Codes codes, int group) { return codes == Codes::e2m1 ? group <= 32 : group >= 32; }

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

// Of a class with the static functions quantise<Paired, Group>(x, tile, groups), multiply<Bits, Group, Rows>(w, tile, y, steps) for
// affine codes of 4 and 8 bits and multiply_codes<codes, Group>(w, tile, y, steps) for all others.
template <class Set>
constexpr Q8Kernels q8_kernels(const char* name, Order order, bool wants_sums = false) {
  return {.name = name, .order = order, .wants_sums = wants_sums,
          .quantise = [](const float* const* x, const Q8Tile& tile, Range groups) {
            with_group(tile.form.group, [&]<int Group>() {
              if (!tile.form.paired) Set::template quantise<false, Group>(x, tile, groups);
              else if constexpr (exists(Codes::u4, Group)) Set::template quantise<true, Group>(x, tile, groups);
            });
          },
          .multiply = [](const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
            with_codes(w.format.codes, [&]<Codes codes>() {
              with_group(w.format.group, [&]<int Group>() {
                if constexpr (!exists(codes, Group)) return;
                else if constexpr (codes != Codes::u4 && codes != Codes::u8) Set::template multiply_codes<codes, Group>(w, tile, y, steps);
                else with_rows(tile.rows, [&]<int Rows>() { Set::template multiply<bits_of(codes), Group, Rows>(w, tile, y, steps); });
              });
            });
          }};
}

// The four rows of a step.
struct Streams {
  const std::uint8_t* at[kStreams];
  int rows[kStreams];

  Streams(const Q8Weights& w, int step) {
    for (int i = 0; i < kStreams; ++i) {
      rows[i] = w.sweep.row(step, i);
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
