// Vector instructions in the order in which they are written, for the loops that everything waits for.
//
// A core holds some dozens of vector operations that wait for their operands, and while it is full nothing else enters. So an
// operation stands where its operands are about to be there: what brings the sums of a group together stands among the products
// of the next group. Compilers order by other rules. Hence the assembly: `volatile` keeps the order, registers are the compiler's.
#pragma once

#include <arm_neon.h>

#include "cpu/q8_format.hpp"

namespace lapidary::cpu::in_order {

// One instruction each; `load` moves the pointer on.

LAPIDARY_INLINE void load(const std::uint8_t*& at, uint8x16_t& a, uint8x16_t& b) {
  asm volatile("ldp %q0, %q1, [%2], #32" : "=w"(a), "=w"(b), "+r"(at));
}
LAPIDARY_INLINE void load(const std::int8_t*& at, int8x16_t& a, int8x16_t& b) {
  asm volatile("ldp %q0, %q1, [%2], #32" : "=w"(a), "=w"(b), "+r"(at));
}
LAPIDARY_INLINE void load(const std::uint32_t*& at, uint32x4_t& words) {
  asm volatile("ldr %q0, [%1], #16" : "=w"(words), "+r"(at));
}
LAPIDARY_INLINE void load(const float*& at, float32x2_t& pair) { asm volatile("ldr %d0, [%1], #8" : "=w"(pair), "+r"(at)); }
// Asks for the line so many bytes ahead. Once for each line and not two in a row: what is asked for in vain costs as much.
template <int Ahead>
LAPIDARY_INLINE void fetch(const void* at) {
  asm volatile("prfm pldl1keep, [%0, %1]" : : "r"(at), "n"(Ahead));
}
LAPIDARY_INLINE void set_zero(int32x4_t& x) { asm volatile("movi %0.2d, #0" : "=w"(x)); }
LAPIDARY_INLINE void shift_up(uint8x16_t& low, uint8x16_t bytes) {
  asm volatile("shl %0.16b, %1.16b, #4" : "=w"(low) : "w"(bytes));
}
LAPIDARY_INLINE void add_dots(int32x4_t& sum, uint8x16_t w, int8x16_t q) {
  asm volatile("usdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(q));
}
LAPIDARY_INLINE void add_pairs(int32x4_t& sum, int32x4_t a, int32x4_t b) {
  asm volatile("addp %0.4s, %1.4s, %2.4s" : "=w"(sum) : "w"(a), "w"(b));
}
LAPIDARY_INLINE void to_float(float32x4_t& x, int32x4_t from) { asm volatile("scvtf %0.4s, %1.4s" : "=w"(x) : "w"(from)); }
LAPIDARY_INLINE void take_upper(float32x4_t& scale, uint32x4_t words, uint32x4_t upper) {
  asm volatile("and %0.16b, %1.16b, %2.16b" : "=w"(scale) : "w"(words), "w"(upper));
}
LAPIDARY_INLINE void take_lower(float32x4_t& bias, uint32x4_t words) {
  asm volatile("shl %0.4s, %1.4s, #16" : "=w"(bias) : "w"(words));
}
LAPIDARY_INLINE void multiply_by_first(float32x4_t& product, float32x4_t x, float32x2_t pair) {
  asm volatile("fmul %0.4s, %1.4s, %2.s[0]" : "=w"(product) : "w"(x), "w"(pair));
}
LAPIDARY_INLINE void add_product(float32x4_t& sum, float32x4_t a, float32x4_t b) {
  asm volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
}
LAPIDARY_INLINE void add_product_by_second(float32x4_t& sum, float32x4_t x, float32x2_t pair) {
  asm volatile("fmla %0.4s, %1.4s, %2.s[1]" : "+w"(sum) : "w"(x), "w"(pair));
}
LAPIDARY_INLINE void load_next(const std::uint8_t*& at, uint8x16_t& a) {
  asm volatile("ldr %q0, [%1, #32]!" : "=w"(a), "+r"(at));
}
template <int Offset>
LAPIDARY_INLINE void load_at(const std::uint8_t* at, uint8x16_t& a) {
  asm volatile("ldr %q0, [%1, %2]" : "=w"(a) : "r"(at), "n"(Offset));
}
template <int Offset, class Vector, class Element>
LAPIDARY_INLINE void load_at(const Element* at, Vector& a, Vector& b) {
  asm volatile("ldp %q0, %q1, [%2, %3]" : "=w"(a), "=w"(b) : "r"(at), "n"(Offset));
}
LAPIDARY_INLINE void zip_lower(uint8x16_t& zipped, uint8x16_t a, uint8x16_t b) {
  asm volatile("zip1 %0.2d, %1.2d, %2.2d" : "=w"(zipped) : "w"(a), "w"(b));
}
LAPIDARY_INLINE void zip_upper(uint8x16_t& zipped, uint8x16_t a, uint8x16_t b) {
  asm volatile("zip2 %0.2d, %1.2d, %2.2d" : "=w"(zipped) : "w"(a), "w"(b));
}
LAPIDARY_INLINE void double_lower(float32x4_t& doubled, float32x4_t x) {
  asm volatile("zip1 %0.4s, %1.4s, %1.4s" : "=w"(doubled) : "w"(x));
}
LAPIDARY_INLINE void double_upper(float32x4_t& doubled, float32x4_t x) {
  asm volatile("zip2 %0.4s, %1.4s, %1.4s" : "=w"(doubled) : "w"(x));
}
LAPIDARY_INLINE void add_matrix_product(int32x4_t& sum, uint8x16_t w, int8x16_t q) {
  asm volatile("usmmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(q));
}
LAPIDARY_INLINE void multiply(float32x4_t& product, float32x4_t a, float32x4_t b) {
  asm volatile("fmul %0.4s, %1.4s, %2.4s" : "=w"(product) : "w"(a), "w"(b));
}

// The loads above are unknown to the compiler: after this, what was written before is there.
LAPIDARY_INLINE void let_loads_see() { asm volatile("" : : : "memory"); }

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
    rows[i] = w.walk.row(steps.begin, i);
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
    const int end = std::min(steps.end, w.walk.next_jump(begin));
    run_steps<Flow>(w, tile, {begin, end}, store);
    begin = end;
  }
}

}  // namespace lapidary::cpu::in_order
