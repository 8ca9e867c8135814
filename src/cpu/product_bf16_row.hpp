// Products of one line with four weight rows of bfloat16, by hand for Arm: 2.03 cycles for 8 weights on a Neoverse N1, of which
// two are their four operations. Compilers' orders take 2.3 to 2.5: a weave, which takes 2 cycles, cannot leave a pipe together with
// an fma, which takes 4. Weights are loaded two steps and widened one step before they are multiplied.
#pragma once

#include <cstddef>

namespace lapidary::cpu {

// How many of `count` weights multiply_four_rows takes: whole cache lines, of which it reads 16 weights more.
constexpr int weights_by_hand(int count) { return count < 48 ? 0 : (count - 16) / 32 * 32; }

#if defined(__aarch64__)

#define LAPIDARY_ROW(sum0, sum1, x0, x1, w0, w1, loaded, row) \
  "fmla v" #sum0 ".4s, v" #x0 ".4s, v" #w0 ".4s\n"            \
  "fmla v" #sum1 ".4s, v" #x1 ".4s, v" #w1 ".4s\n"            \
  "zip1 v" #w0 ".8h, v31.8h, v" #loaded ".8h\n"               \
  "zip2 v" #w1 ".8h, v31.8h, v" #loaded ".8h\n"               \
  "ldr q" #loaded ", [%[" #row "]], #16\n"
#define LAPIDARY_STEP(x0, x1, next0, next1, fetched)   \
  "ldp q" #next0 ", q" #next1 ", [%[x]], #32\n"        \
  "prfm pldl2keep, [%[ahead], #" #fetched "]\n"        \
  LAPIDARY_ROW(0, 1, x0, x1, 8, 9, 16, row0)           \
  LAPIDARY_ROW(2, 3, x0, x1, 10, 11, 17, row1)         \
  LAPIDARY_ROW(4, 5, x0, x1, 12, 13, 18, row2)         \
  LAPIDARY_ROW(6, 7, x0, x1, 14, 15, 19, row3)
#define LAPIDARY_FIRST(w0, w1, loaded, row)      \
  "ldr q" #loaded ", [%[" #row "]], #16\n"       \
  "zip1 v" #w0 ".8h, v31.8h, v" #loaded ".8h\n"  \
  "zip2 v" #w1 ".8h, v31.8h, v" #loaded ".8h\n"  \
  "ldr q" #loaded ", [%[" #row "]], #16\n"

// sums: [4, 8]. count: from weights_by_hand, not 0. Fetches as many bytes from `ahead` on as it multiplies.
inline void multiply_four_rows(const float* x, const std::byte* weights, std::size_t row_bytes, int count,
                               const std::byte* ahead, float* sums) {
  const std::byte *row0 = weights, *row1 = row0 + row_bytes, *row2 = row1 + row_bytes, *row3 = row2 + row_bytes;
  int lines = count / 32;
  asm volatile(
      "movi v31.2d, #0\n"
      "ldp q0, q1, [%[sums]]\n"
      "ldp q2, q3, [%[sums], #32]\n"
      "ldp q4, q5, [%[sums], #64]\n"
      "ldp q6, q7, [%[sums], #96]\n"
      LAPIDARY_FIRST(8, 9, 16, row0)
      LAPIDARY_FIRST(10, 11, 17, row1)
      LAPIDARY_FIRST(12, 13, 18, row2)
      LAPIDARY_FIRST(14, 15, 19, row3)
      "ldp q20, q21, [%[x]], #32\n"
      "1:\n"
      LAPIDARY_STEP(20, 21, 22, 23, 0)
      LAPIDARY_STEP(22, 23, 20, 21, 64)
      LAPIDARY_STEP(20, 21, 22, 23, 128)
      LAPIDARY_STEP(22, 23, 20, 21, 192)
      "add %[ahead], %[ahead], #256\n"
      "subs %w[lines], %w[lines], #1\n"
      "b.ne 1b\n"
      "stp q0, q1, [%[sums]]\n"
      "stp q2, q3, [%[sums], #32]\n"
      "stp q4, q5, [%[sums], #64]\n"
      "stp q6, q7, [%[sums], #96]\n"
      : [x] "+r"(x), [row0] "+r"(row0), [row1] "+r"(row1), [row2] "+r"(row2), [row3] "+r"(row3), [ahead] "+r"(ahead),
        [lines] "+r"(lines)
      : [sums] "r"(sums)
      : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
        "v18", "v19", "v20", "v21", "v22", "v23", "v31", "cc", "memory");
}

#undef LAPIDARY_FIRST
#undef LAPIDARY_STEP
#undef LAPIDARY_ROW

#endif

}  // namespace lapidary::cpu
