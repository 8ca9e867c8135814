// Products of one line with four weight rows of bfloat16 on Arm, in instructions that stay in the order in which they are written.
//
// 8 weights cost four operations: two weaves, which widen them, and two fmas. A Neoverse N1 begins two a cycle, but a weave, which
// takes 2 cycles, cannot leave a pipe together with an fma, which takes 4. So pairs of them alternate, and weights are loaded two
// steps and widened one step before they are multiplied: 2.03 cycles. Compilers' orders take 2.3 to 2.5.
#pragma once

#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstddef>

#define LAPIDARY_INLINE inline __attribute__((always_inline))

namespace lapidary::cpu {

class FourRows {
 public:
  static constexpr int kLineWeights = 32;  // of a cache line

  // x and the rows from `weights` on are multiplied; as many bytes are fetched from `ahead` on.
  LAPIDARY_INLINE FourRows(const float* x, const std::byte* weights, std::size_t row_bytes, const std::byte* ahead)
      : x_(x), ahead_(ahead) {
    for (int c = 0; c < 4; ++c) {
      row_[c] = weights + c * row_bytes;
      sum_[c][0] = sum_[c][1] = vdupq_n_f32(0.0f);
    }
  }

  // The sums of the first `count` weights by lanes. count: a multiple of kLineWeights, not 0. sums: [4, 8]
  LAPIDARY_INLINE void multiply(int count, float* sums) {
    asm volatile("" : : : "memory");  // the loads below are unknown to the compiler
    load(left_[0]);
    for (int c = 0; c < 4; ++c) {
      load(row_[c], loaded_[c]);
      widen(c);
      load(row_[c], loaded_[c]);
    }
    for (; count > kLineWeights; count -= kLineWeights) {
      step<0, 2>();
      step<1, 2>();
      step<2, 2>();
      step<3, 2>();
      ahead_ += 256;
    }
    step<0, 2>();
    step<1, 2>();
    step<2, 1>();
    step<3, 0>();
    for (int c = 0; c < 4; ++c) {
      vst1q_f32(sums + c * 8, sum_[c][0]);
      vst1q_f32(sums + c * 8 + 4, sum_[c][1]);
    }
  }

 private:
  // One instruction each, or a pair; `load` moves the pointer on.
  LAPIDARY_INLINE void load(float32x4_t (&x)[2]) {
    asm volatile("ldp %q0, %q1, [%2], #32" : "=w"(x[0]), "=w"(x[1]), "+r"(x_));
  }
  static LAPIDARY_INLINE void load(const std::byte*& at, uint16x8_t& halves) {
    asm volatile("ldr %q0, [%1], #16" : "=w"(halves), "+r"(at));
  }
  LAPIDARY_INLINE void widen(int c) {
    asm volatile("zip1 %0.8h, %1.8h, %2.8h" : "=w"(weight_[c][0]) : "w"(zero_), "w"(loaded_[c]));
    asm volatile("zip2 %0.8h, %1.8h, %2.8h" : "=w"(weight_[c][1]) : "w"(zero_), "w"(loaded_[c]));
  }
  LAPIDARY_INLINE void add_products(int c, const float32x4_t (&x)[2]) {
    asm volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum_[c][0]) : "w"(x[0]), "w"(weight_[c][0]));
    asm volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum_[c][1]) : "w"(x[1]), "w"(weight_[c][1]));
  }

  // Eight weights of each row. Left: how many steps follow, up to 2.
  template <int Step, int Left>
  LAPIDARY_INLINE void step() {
    if constexpr (Left > 0) load(left_[(Step + 1) % 2]);
    asm volatile("prfm pldl2keep, [%0, %1]" : : "r"(ahead_), "n"(Step * 64));
    for (int c = 0; c < 4; ++c) {
      add_products(c, left_[Step % 2]);
      if constexpr (Left > 0) widen(c);
      if constexpr (Left > 1) load(row_[c], loaded_[c]);
    }
  }

  const float* x_;
  const std::byte* row_[4];
  const std::byte* ahead_;
  float32x4_t sum_[4][2], weight_[4][2], left_[2][2];
  uint16x8_t loaded_[4], zero_ = vdupq_n_u16(0);
};

}  // namespace lapidary::cpu

#undef LAPIDARY_INLINE

#endif
