// Products of seven or eight rows of activations with weights of 4 bits in groups of 64, in pairs as in q8_i8mm_pairs.hpp.
//
// Sums and dots of eight rows take half of the registers, and the fastest order needs all others. A compiler that is given it
// statement by statement keeps some of them in memory, so this loop is one block.
#pragma once

#include <cstddef>

#include "cpu/q8_i8mm_in_order.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

// Steps whose streams do not jump.
struct EightRows {
  static constexpr int kMaxSteps = 32;
  using Sums = float[2 * 4][1 + kMaxSteps][4];  // [activation pair, weight pair][step], 2 x 2 each; the first of no use

  const std::uint8_t* weights[kStreams];
  const std::int8_t* q;
  const float* factors;
  const std::uint32_t* scales;
  std::int64_t groups, steps;
  Sums* sums;
};

// A turn as those for one row (q8_i8mm_row.hpp): products of a group come into the dots, those of the group before into the sums.
//   v0 - v7    sums, [activation pair][weight pair]      x1 - x4    streams, x5 - x8 16 bytes later, x9 the group's place in them
//   v8 - v15   dots, likewise                            x10        activations of the group
//   v31        the upper halves of words                 x11, x12   scales and factors of the group before
#define LAPIDARY_EIGHT_ROWS_TURN \
  "ldr q16, [x11]\n"                  "and v17.16b, v16.16b, v31.16b\n" \
  "shl v18.4s, v16.4s, #16\n"         "ldr q19, [x2, x9]\n" \
  "ldr q20, [x12, #0]\n"              "ldr q21, [x1, x9]\n" \
  "ldr q22, [x3, x9]\n"               "ldr q23, [x10, #0]\n" \
  "ldr q24, [x4, x9]\n"               "zip1 v25.2d, v22.2d, v24.2d\n" \
  "scvtf v26.4s, v8.4s\n"             "zip1 v27.4s, v17.4s, v17.4s\n" \
  "zip1 v28.2d, v21.2d, v19.2d\n"     "movi v8.2d, #0\n" \
  "zip2 v29.2d, v21.2d, v19.2d\n"     "shl v30.16b, v25.16b, #4\n" \
  "zip1 v16.4s, v18.4s, v18.4s\n"     "zip2 v21.4s, v17.4s, v17.4s\n" \
  "shl v19.16b, v28.16b, #4\n"        "usmmla v8.4s, v28.16b, v23.16b\n" \
  "scvtf v17.4s, v9.4s\n"             "zip2 v22.2d, v22.2d, v24.2d\n" \
  "fmul v24.4s, v27.4s, v20.4s\n"     "zip2 v18.4s, v18.4s, v18.4s\n" \
  "fmul v20.4s, v21.4s, v20.4s\n"     "fmla v0.4s, v26.4s, v24.4s\n" \
  "ldr q26, [x12, #16]\n"             "ldr q24, [x10, #16]\n" \
  "movi v9.2d, #0\n"                  "usmmla v9.4s, v25.16b, v23.16b\n" \
  "scvtf v23.4s, v10.4s\n"            "movi v10.2d, #0\n" \
  "fmla v1.4s, v17.4s, v20.4s\n"      "fmla v1.4s, v18.4s, v26.4s\n" \
  "ldr q17, [x12, #32]\n"             "ldr q20, [x10, #128]\n" \
  "fmla v0.4s, v16.4s, v26.4s\n"      "usmmla v9.4s, v30.16b, v24.16b\n" \
  "usmmla v8.4s, v19.16b, v24.16b\n"  "scvtf v26.4s, v11.4s\n" \
  "movi v11.2d, #0\n"                 "fmul v24.4s, v27.4s, v17.4s\n" \
  "usmmla v10.4s, v28.16b, v20.16b\n" "fmul v17.4s, v21.4s, v17.4s\n" \
  "usmmla v11.4s, v25.16b, v20.16b\n" "ldr q20, [x12, #48]\n" \
  "fmla v2.4s, v23.4s, v24.4s\n"      "scvtf v23.4s, v13.4s\n" \
  "scvtf v24.4s, v12.4s\n"            "fmla v3.4s, v26.4s, v17.4s\n" \
  "ldr q26, [x10, #144]\n"            "ldr q17, [x10, #256]\n" \
  "fmla v2.4s, v16.4s, v20.4s\n"      "usmmla v11.4s, v30.16b, v26.16b\n" \
  "fmla v3.4s, v18.4s, v20.4s\n"      "usmmla v10.4s, v19.16b, v26.16b\n" \
  "ldr q20, [x12, #64]\n"             "movi v12.2d, #0\n" \
  "fmul v26.4s, v27.4s, v20.4s\n"     "usmmla v12.4s, v28.16b, v17.16b\n" \
  "fmul v20.4s, v21.4s, v20.4s\n"     "movi v13.2d, #0\n" \
  "fmla v4.4s, v24.4s, v26.4s\n"      "ldr q24, [x12, #96]\n" \
  "usmmla v13.4s, v25.16b, v17.16b\n" "ldr q26, [x12, #80]\n" \
  "fmla v4.4s, v16.4s, v26.4s\n"      "fmla v5.4s, v23.4s, v20.4s\n" \
  "ldr q17, [x10, #384]\n"            "ldr q23, [x10, #272]\n" \
  "scvtf v20.4s, v14.4s\n"            "fmla v5.4s, v18.4s, v26.4s\n" \
  "scvtf v26.4s, v15.4s\n"            "fmul v21.4s, v21.4s, v24.4s\n" \
  "movi v14.2d, #0\n"                 "usmmla v12.4s, v19.16b, v23.16b\n" \
  "movi v15.2d, #0\n"                 "fmul v27.4s, v27.4s, v24.4s\n" \
  "usmmla v14.4s, v28.16b, v17.16b\n" "ldr q24, [x10, #304]\n" \
  "usmmla v13.4s, v30.16b, v23.16b\n" "shl v28.16b, v22.16b, #4\n" \
  "ldr q23, [x10, #288]\n"            "usmmla v15.4s, v25.16b, v17.16b\n" \
  "ldr q25, [x10, #32]\n"             "fmla v7.4s, v26.4s, v21.4s\n" \
  "ldr q17, [x10, #400]\n"            "usmmla v15.4s, v30.16b, v17.16b\n" \
  "ldr q26, [x10, #48]\n"             "ldr q21, [x10, #160]\n" \
  "usmmla v14.4s, v19.16b, v17.16b\n" "usmmla v9.4s, v22.16b, v25.16b\n" \
  "ldr q30, [x7, x9]\n"               "shl v19.16b, v29.16b, #4\n" \
  "fmla v6.4s, v20.4s, v27.4s\n"      "ldr q17, [x8, x9]\n" \
  "ldr q20, [x10, #416]\n"            "ldr q27, [x12, #112]\n" \
  "usmmla v8.4s, v29.16b, v25.16b\n"  "ldr q25, [x6, x9]\n" \
  "usmmla v10.4s, v29.16b, v21.16b\n" "usmmla v12.4s, v29.16b, v23.16b\n" \
  "usmmla v11.4s, v22.16b, v21.16b\n" "usmmla v13.4s, v22.16b, v23.16b\n" \
  "ldr q21, [x5, x9]\n"               "zip1 v23.2d, v30.2d, v17.2d\n" \
  "fmla v6.4s, v16.4s, v27.4s\n"      "usmmla v9.4s, v28.16b, v26.16b\n" \
  "usmmla v15.4s, v22.16b, v20.16b\n" "usmmla v8.4s, v19.16b, v26.16b\n" \
  "ldr q16, [x10, #64]\n"             "usmmla v14.4s, v29.16b, v20.16b\n" \
  "ldr q22, [x10, #192]\n"            "ldr q26, [x10, #352]\n" \
  "ldr q29, [x10, #176]\n"            "zip1 v20.2d, v21.2d, v25.2d\n" \
  "zip2 v30.2d, v30.2d, v17.2d\n"     "usmmla v11.4s, v28.16b, v29.16b\n" \
  "zip2 v17.2d, v21.2d, v25.2d\n"     "shl v21.16b, v20.16b, #4\n" \
  "usmmla v13.4s, v28.16b, v24.16b\n" "usmmla v10.4s, v19.16b, v29.16b\n" \
  "ldr q25, [x10, #80]\n"             "usmmla v12.4s, v19.16b, v24.16b\n" \
  "ldr q29, [x10, #432]\n"            "fmla v7.4s, v18.4s, v27.4s\n" \
  "usmmla v15.4s, v28.16b, v29.16b\n" "ldr q24, [x10, #320]\n" \
  "usmmla v9.4s, v23.16b, v16.16b\n"  "shl v18.16b, v23.16b, #4\n" \
  "shl v27.16b, v17.16b, #4\n"        "ldr q28, [x10, #208]\n" \
  "usmmla v14.4s, v19.16b, v29.16b\n" "ldr q19, [x10, #448]\n" \
  "usmmla v8.4s, v20.16b, v16.16b\n"  "usmmla v12.4s, v20.16b, v24.16b\n" \
  "usmmla v10.4s, v20.16b, v22.16b\n" "ldr q29, [x10, #464]\n" \
  "ldr q16, [x10, #496]\n"            "usmmla v11.4s, v23.16b, v22.16b\n" \
  "ldr q22, [x10, #96]\n"             "usmmla v14.4s, v20.16b, v19.16b\n" \
  "usmmla v9.4s, v18.16b, v25.16b\n"  "ldr q20, [x10, #336]\n" \
  "usmmla v13.4s, v23.16b, v24.16b\n" "usmmla v10.4s, v21.16b, v28.16b\n" \
  "usmmla v13.4s, v18.16b, v20.16b\n" "ldr q24, [x10, #240]\n" \
  "usmmla v15.4s, v23.16b, v19.16b\n" "ldr q23, [x10, #224]\n" \
  "usmmla v8.4s, v21.16b, v25.16b\n"  "usmmla v12.4s, v21.16b, v20.16b\n" \
  "usmmla v14.4s, v21.16b, v29.16b\n" "ldr q19, [x10, #368]\n" \
  "shl v25.16b, v30.16b, #4\n"        "usmmla v9.4s, v30.16b, v22.16b\n" \
  "ldr q20, [x10, #112]\n"            "usmmla v11.4s, v18.16b, v28.16b\n" \
  "usmmla v15.4s, v18.16b, v29.16b\n" "usmmla v11.4s, v30.16b, v23.16b\n" \
  "usmmla v11.4s, v25.16b, v24.16b\n" "ldr q21, [x10, #480]\n" \
  "usmmla v8.4s, v17.16b, v22.16b\n"  "usmmla v8.4s, v27.16b, v20.16b\n" \
  "usmmla v13.4s, v30.16b, v26.16b\n" "usmmla v15.4s, v30.16b, v21.16b\n" \
  "usmmla v14.4s, v27.16b, v16.16b\n" "usmmla v12.4s, v17.16b, v26.16b\n" \
  "usmmla v9.4s, v25.16b, v20.16b\n"  "usmmla v10.4s, v17.16b, v23.16b\n" \
  "usmmla v12.4s, v27.16b, v19.16b\n" "usmmla v14.4s, v17.16b, v21.16b\n" \
  "usmmla v15.4s, v25.16b, v16.16b\n" "usmmla v10.4s, v27.16b, v24.16b\n" \
  "usmmla v13.4s, v25.16b, v19.16b\n"

LAPIDARY_INLINE void multiply_run(const EightRows& rows) {
  register const EightRows* at asm("x0") = &rows;
  static_assert(sizeof(EightRows::Sums) == 8 * 528);
  static_assert(offsetof(EightRows, q) == 32 && offsetof(EightRows, factors) == 40 && offsetof(EightRows, scales) == 48 &&
                offsetof(EightRows, groups) == 56 && offsetof(EightRows, steps) == 64 && offsetof(EightRows, sums) == 72);
  asm volatile(
      "ldp x1, x2, [x0]\n"
      "ldp x3, x4, [x0, #16]\n"
      "add x5, x1, #16\n"
      "add x6, x2, #16\n"
      "add x7, x3, #16\n"
      "add x8, x4, #16\n"
      "mov x9, #0\n"
      "ldr x10, [x0, #32]\n"
      "ldp x12, x11, [x0, #40]\n"
      "ldp x16, x14, [x0, #56]\n"  // groups, steps left
      "ldr x15, [x0, #72]\n"
      "mov x17, x11\n"             // scales of the next step
      "mvni v31.4s, #0xff, msl #8\n"
      "movi v8.2d, #0\n" "movi v9.2d, #0\n" "movi v10.2d, #0\n" "movi v11.2d, #0\n"
      "movi v12.2d, #0\n" "movi v13.2d, #0\n" "movi v14.2d, #0\n" "movi v15.2d, #0\n"
      "movi v0.2d, #0\n" "movi v1.2d, #0\n" "movi v2.2d, #0\n" "movi v3.2d, #0\n"
      "movi v4.2d, #0\n" "movi v5.2d, #0\n" "movi v6.2d, #0\n" "movi v7.2d, #0\n"
      ".p2align 5\n"
      // The first group of a step; then the sums of the step before are complete.
      "1:\n" LAPIDARY_EIGHT_ROWS_TURN
      "add x9, x9, #32\n"
      "add x10, x10, #512\n"
      "str q1, [x15, #528]\n"
      "str q2, [x15, #1056]\n"
      "str q3, [x15, #1584]\n"
      "str q4, [x15, #2112]\n"
      "str q5, [x15, #2640]\n"
      "str q6, [x15, #3168]\n"
      "str q7, [x15, #3696]\n"
      "str q0, [x15], #16\n"
      "cbz x14, 3f\n"
      "movi v0.2d, #0\n" "movi v1.2d, #0\n" "movi v2.2d, #0\n" "movi v3.2d, #0\n"
      "movi v4.2d, #0\n" "movi v5.2d, #0\n" "movi v6.2d, #0\n" "movi v7.2d, #0\n"
      "mov x11, x17\n"
      "add x17, x17, x16, lsl #4\n"
      "ldr x12, [x0, #40]\n"
      "sub x13, x16, #1\n"
      ".p2align 5\n"
      // The other groups.
      "2:\n" LAPIDARY_EIGHT_ROWS_TURN
      "add x9, x9, #32\n"
      "add x10, x10, #512\n"
      "add x11, x11, #16\n"
      "add x12, x12, #128\n"
      "subs x13, x13, #1\n"
      "b.ne 2b\n"
      "ldr x10, [x0, #32]\n"
      "subs x14, x14, #1\n"
      "b.ne 1b\n"
      "sub x9, x9, #32\n"  // there is no group after: the last one again
      "b 1b\n"
      "3:\n"
      :
      : "r"(at)
      : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "v0", "v1",
        "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19",
        "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");
}

#undef LAPIDARY_EIGHT_ROWS_TURN

// The outputs of one activation pair and one weight pair, of `steps` steps. to: [weight row][activation row]
LAPIDARY_INLINE void store_steps(const float (*sums)[4], int steps, float* const (&to)[4], bool both) {
  int step = 0;
  for (; step + 4 <= steps; step += 4) {
    const float32x4x4_t outputs = vld4q_f32(sums[step]);
    for (int i = 0; i < 4; i += both ? 1 : 2) vst1q_f32(to[i] + step, outputs.val[i]);
  }
  for (; step < steps; ++step)
    for (int i = 0; i < 4; i += both ? 1 : 2) to[i][step] = sums[step][i];
}

inline void multiply_eight(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  const int groups = w.cols / 64;
  EightRows::Sums sums;
  for (int begin = steps.begin; begin < steps.end;) {
    const int count = std::min({steps.end, w.sweep.next_jump(begin), begin + EightRows::kMaxSteps}) - begin;
    EightRows rows{.weights = {}, .q = tile.q, .factors = tile.factors,
                   .scales = w.scales + static_cast<std::size_t>(begin) * groups * kStreams,
                   .groups = groups, .steps = count, .sums = &sums};
    int outputs[kStreams];
    for (int i = 0; i < kStreams; ++i) {
      outputs[i] = w.sweep.row(begin, i);
      rows.weights[i] = reinterpret_cast<const std::uint8_t*>(w.values) + outputs[i] * w.row_bytes;
    }
    multiply_run(rows);
    for (int pair = 0; pair < 4; ++pair) {
      const bool both = 2 * pair + 1 < tile.rows;
      float* const y0 = y[2 * pair], *const y1 = y[both ? 2 * pair + 1 : 2 * pair];
      for (int half = 0; half < 2; ++half) {
        const int first = outputs[2 * half], second = outputs[2 * half + 1];
        store_steps(sums[2 * pair + half] + 1, count, {y0 + first, y1 + first, y0 + second, y1 + second}, both);
      }
    }
    begin += count;
  }
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
