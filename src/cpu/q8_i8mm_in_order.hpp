// How the loops of q8_i8mm_row.hpp, q8_i8mm_two.hpp and q8_i8mm_four.hpp go through the steps of a matrix.
#pragma once

#include "cpu/q8_in_order.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

// Whole rows that follow each other in the file, at least two groups each.
inline bool can_multiply(const Q8Weights& w) {
  return w.rows % kStreams == 0 && w.cols >= 128 && w.row_bytes == static_cast<std::size_t>(w.cols) / 2;
}

// Goes through steps whose streams do not jump: each reads on where it is. A turn multiplies one group and takes the products of
// the group before into the sums, so those of a step are complete, for store(flow, rows), after the first turn of the next.
template <class Flow, class Store>
void run_steps(const Q8Weights& w, const Q8Tile& tile, Range steps, Store store) {
  const int groups = w.cols / 64;
  const std::uint32_t* const scales = w.scales + static_cast<std::size_t>(steps.begin) * groups * kStreams;
  let_loads_see();

  Flow f{};
  f.q = tile.q;
  f.scales = scales;
  f.factors = tile.factors;
  f.upper = vdupq_n_u32(0xffff0000u);
  int rows[kStreams];
  for (int i = 0; i < kStreams; ++i) {
    rows[i] = w.sweep.row(steps.begin, i);
    f.weights[i] = reinterpret_cast<const std::uint8_t*>(w.values) + rows[i] * w.row_bytes;
  }
  f.load_first();
  turn<0>(f);  // there is no group before
  f.scales = scales;
  for (int step = steps.begin;;) {
    f.factors = tile.factors;
    f.clear_sums();
    int g = 1;
    for (; g + 2 < groups; g += 2) {
      turn<2>(f);
      turn<0>(f);
    }
    if (g + 1 < groups) turn<2>(f);
    if (++step == steps.end) break;
    turn<2>(f);
    f.q = tile.q;
    turn<0>(f);
    store(f, rows);
    for (int& row : rows) ++row;
  }
  turn<2, true>(f);
  f.q = tile.q;
  turn<0, true>(f);  // there is no group after: only the sums are of use
  store(f, rows);
}

template <class Flow, class Store>
void for_each_step(const Q8Weights& w, const Q8Tile& tile, Range steps, Store store) {
  for (int begin = steps.begin; begin < steps.end;) {
    const int end = std::min(steps.end, w.sweep.next_jump(begin));
    run_steps<Flow>(w, tile, {begin, end}, store);
    begin = end;
  }
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
