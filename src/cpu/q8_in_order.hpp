// Vector instructions in the order in which they are written, for the loops that everything waits for.
//
// A core holds some dozens of vector operations that wait for their operands, and while it is full nothing else enters. So an
// operation stands where its operands are about to be there: what brings the sums of a group together stands among the products
// of the next group. Compilers order by other rules. Hence the assembly: `volatile` keeps the order, registers are the compiler's.
#pragma once

#include <arm_neon.h>

#include "cpu/q8_format.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

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
LAPIDARY_INLINE void load(const std::uint32_t*& at, uint16x4_t& halves) {
  asm volatile("ldr %d0, [%1], #8" : "=w"(halves), "+r"(at));
}
template <int Stride = 8>
LAPIDARY_INLINE void load(const float*& at, float32x2_t& pair) {
  asm volatile("ldr %d0, [%1], %2" : "=w"(pair), "+r"(at) : "n"(Stride));
}
// The first element; the others become zeros.
LAPIDARY_INLINE void load_first(const std::int32_t* at, int32x4_t& x) { asm volatile("ldr %s0, [%1]" : "=w"(x) : "r"(at)); }
// Asks for the line so many bytes ahead. Once for each line and not two in a row: what is asked for in vain costs as much.
template <int Ahead>
LAPIDARY_INLINE void fetch(const void* at) {
  asm volatile("prfm pldl1keep, [%0, %1]" : : "r"(at), "n"(Ahead));
}
// The same for the second cache, from where a line comes soon enough when it is asked for again.
template <int Ahead>
LAPIDARY_INLINE void fetch_near(const void* at) {
  asm volatile("prfm pldl2keep, [%0, %1]" : : "r"(at), "n"(Ahead));
}
LAPIDARY_INLINE void set_zero(int32x4_t& x) { asm volatile("movi %0.2d, #0" : "=w"(x)); }
LAPIDARY_INLINE void shift_up(uint8x16_t& low, uint8x16_t bytes) {
  asm volatile("shl %0.16b, %1.16b, #4" : "=w"(low) : "w"(bytes));
}
LAPIDARY_INLINE void add_dots(int32x4_t& sum, uint8x16_t w, int8x16_t q) {
  asm volatile("usdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(q));
}
LAPIDARY_INLINE void add_dots(int32x4_t& sum, int8x16_t w, int8x16_t q) {
  asm volatile("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(q));
}
LAPIDARY_INLINE void add_dots(int32x4_t& sum, uint8x16_t w, uint8x16_t q) {
  asm volatile("udot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(q));
}
template <int Lane>
LAPIDARY_INLINE void add_dots_by(int32x4_t& sum, int8x16_t w, int8x16_t q) {
  asm volatile("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sum) : "w"(w), "w"(q), "n"(Lane));
}
template <int Lane>
LAPIDARY_INLINE void add_dots_by(int32x4_t& sum, uint8x16_t w, uint8x16_t q) {
  asm volatile("udot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sum) : "w"(w), "w"(q), "n"(Lane));
}
LAPIDARY_INLINE void add(int32x4_t& sum, int32x4_t a, int32x4_t b) {
  asm volatile("add %0.4s, %1.4s, %2.4s" : "=w"(sum) : "w"(a), "w"(b));
}
LAPIDARY_INLINE void subtract(float32x4_t& difference, int32x4_t a, float32x4_t b) {
  asm volatile("fsub %0.4s, %1.4s, %2.4s" : "=w"(difference) : "w"(a), "w"(b));
}
LAPIDARY_INLINE void subtract_products(int32x4_t& sum, uint16x4_t a, uint16x4_t b) {
  asm volatile("umlsl %0.4s, %1.4h, %2.4h" : "+w"(sum) : "w"(a), "w"(b));
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

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
