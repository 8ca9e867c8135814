// Products of one row of activations with weights of 4 bits in groups of 64, by dot products of unsigned bytes (q8_unsigned.hpp).
//
// Everything waits for this loop when tokens come one at a time. It is one block, so that the end of a step costs next to nothing: its
// last sums are made during the first products of the next step. The order was found by trial on a processor with four vector units,
// among those that keep two of them busy (q8_in_order.hpp says why it matters).
#pragma once

#include <cstddef>

#include "cpu/q8_unsigned.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

struct RowBlock {
  const std::uint8_t* weights[kStreams];
  const std::uint8_t* q;
  const float* factors;
  const std::uint32_t* scales;
  std::int64_t groups, steps;  // two at least, one at least
  float* y;
  std::size_t to_next_step;    // from the end of a stream's row
  const std::uint8_t* ahead;
  float before[kStreams];      // a place for the sums before the first step, which are of no use
  float whole = kWhole;        // what sums begin with
};
static_assert(offsetof(RowBlock, q) == 32 && offsetof(RowBlock, factors) == 40 && offsetof(RowBlock, groups) == 56 &&
              offsetof(RowBlock, y) == 72 && offsetof(RowBlock, to_next_step) == 80 && offsetof(RowBlock, before) == 96 &&
              offsetof(RowBlock, whole) == 112);

// A group comes into the dots, the one before into the sums.
//   x1 - x4  streams           x11, x12   scales and factors of the group before   v0           sums
//   x10      activations       x13        what is fetched                          v3, v6, v7   dots: of two streams, of the others
//   v29 128, v30 the upper halves of words, v31 and [x8] kWhole
#define LAPIDARY_ROW_TURN \
  "addp v1.4s, v6.4s, v7.4s\n"      "ldp q4, q2, [x4], #32\n" \
  "ldr q5, [x11]\n"                 "ldp q9, q8, [x3], #32\n" \
  "ldr s7, [x8]\n"                  "ldp q10, q11, [x10]\n" \
  "ldr s6, [x8]\n"                  "ldr s12, [x8]\n" \
  "ldr s13, [x8]\n"                 "ldp q15, q14, [x10, #32]\n" \
  "addp v1.4s, v3.4s, v1.4s\n"      "ldp q16, q3, [x1], #32\n" \
  "udot v7.4s, v4.16b, v10.16b\n"   "udot v6.4s, v9.16b, v10.16b\n" \
  "ldp q17, q18, [x2], #32\n"       "prfm pldl2keep, [x13, #8256]\n" \
  "prfm pldl1keep, [x13]\n"         "shl v19.16b, v16.16b, #4\n" \
  "ldr d20, [x11, #16]\n"           "shl v21.16b, v8.16b, #4\n" \
  "prfm pldl2keep, [x13, #8192]\n"  "shl v22.16b, v2.16b, #4\n" \
  "udot v12.4s, v17.16b, v10.16b\n" "and v23.16b, v5.16b, v30.16b\n" \
  "ldr d24, [x12]\n"                "shl v4.16b, v4.16b, #4\n" \
  "udot v13.4s, v16.16b, v10.16b\n" "umlsl v1.4s, v20.4h, v29.4h\n" \
  "shl v9.16b, v9.16b, #4\n"        "prfm pldl1keep, [x13, #64]\n" \
  "shl v17.16b, v17.16b, #4\n"      "udot v6.4s, v8.16b, v15.16b\n" \
  "udot v12.4s, v18.16b, v15.16b\n" "udot v13.4s, v3.16b, v15.16b\n" \
  "fsub v1.4s, v1.4s, v31.4s\n"     "shl v3.16b, v3.16b, #4\n" \
  "udot v7.4s, v4.16b, v11.16b\n"   "udot v6.4s, v21.16b, v14.16b\n" \
  "fmul v23.4s, v23.4s, v24.s[0]\n" "shl v18.16b, v18.16b, #4\n" \
  "udot v13.4s, v19.16b, v11.16b\n" "fmla v0.4s, v1.4s, v23.4s\n" \
  "udot v7.4s, v22.16b, v14.16b\n"  "udot v12.4s, v17.16b, v11.16b\n" \
  "shl v5.4s, v5.4s, #16\n"         "udot v13.4s, v3.16b, v14.16b\n" \
  "udot v12.4s, v18.16b, v14.16b\n" "addp v3.4s, v13.4s, v12.4s\n" \
  "udot v7.4s, v2.16b, v15.16b\n"   "fmla v0.4s, v5.4s, v24.s[1]\n" \
  "udot v6.4s, v9.16b, v11.16b\n"

LAPIDARY_INLINE void multiply_block(RowBlock& block) {
  register RowBlock* at asm("x0") = &block;
  asm volatile(
      "ldp x1, x2, [x0]\n"
      "ldp x3, x4, [x0, #16]\n"
      "ldr x10, [x0, #32]\n"
      "ldp x12, x11, [x0, #40]\n"
      "ldp x16, x14, [x0, #56]\n"  // groups, steps left
      "ldp x7, x6, [x0, #72]\n"    // outputs of the next step, from one step to the next
      "ldr x13, [x0, #88]\n"
      "add x15, x0, #96\n"         // outputs
      "add x8, x0, #112\n"
      "mov x17, x11\n"             // scales of the next step
      "movi v29.4h, #128\n"
      "mvni v30.4s, #0xff, msl #8\n"
      "ld1r {v31.4s}, [x8]\n"
      "movi v0.2d, #0\n" "movi v3.2d, #0\n" "movi v6.2d, #0\n" "movi v7.2d, #0\n"
      ".p2align 5\n"
      // The first group of a step; then the sums of the step before are complete.
      "1:\n" LAPIDARY_ROW_TURN
      "add x10, x10, #64\n"
      "add x13, x13, #128\n"
      "str q0, [x15]\n"
      "cbz x14, 3f\n"
      "mov x15, x7\n"
      "add x7, x7, #16\n"
      "movi v0.2d, #0\n"
      "mov x11, x17\n"
      "add x17, x17, x16, lsl #4\n"
      "add x17, x17, x16, lsl #3\n"
      "ldr x12, [x0, #40]\n"
      "sub x5, x16, #1\n"
      ".p2align 5\n"
      // The other groups.
      "2:\n" LAPIDARY_ROW_TURN
      "add x10, x10, #64\n"
      "add x13, x13, #128\n"
      "add x11, x11, #24\n"
      "add x12, x12, #32\n"
      "subs x5, x5, #1\n"
      "b.ne 2b\n"
      "ldr x10, [x0, #32]\n"
      "subs x14, x14, #1\n"
      "csel x6, x6, x5, ne\n"      // 0 after the last step
      "add x1, x1, x6\n"
      "add x2, x2, x6\n"
      "add x3, x3, x6\n"
      "add x4, x4, x6\n"
      "b.ne 1b\n"
      // There is no group after: the last one again.
      "sub x1, x1, #32\n"
      "sub x2, x2, #32\n"
      "sub x3, x3, #32\n"
      "sub x4, x4, #32\n"
      "b 1b\n"
      "3:\n"
      :
      : "r"(at)
      : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "v0", "v1", "v2", "v3",
        "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",
        "v23", "v24", "v29", "v30", "v31", "cc", "memory");
}

#undef LAPIDARY_ROW_TURN

// For two groups and more; a last step of fewer than four rows goes the way of several rows.
inline void multiply_row(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  const int groups = w.cols / 64, whole = std::min(steps.end, w.rows / kStreams);
  if (steps.begin < whole) {
    const Streams streams(w, steps.begin);
    RowBlock block{.weights = {}, .q = reinterpret_cast<const std::uint8_t*>(tile.q),
                   .factors = &reinterpret_cast<const SignedFactors*>(tile.factors)->a,
                   .scales = w.scales + static_cast<std::size_t>(steps.begin) * groups * kUnsignedWords,
                   .groups = groups, .steps = whole - steps.begin, .y = y[0] + steps.begin * kStreams,
                   .to_next_step = kStreams * w.row_bytes - w.cols / 2, .ahead = fetched_from(w, streams), .before = {}};
    std::copy_n(streams.at, kStreams, block.weights);
    multiply_block(block);
  }
  if (whole < steps.end) multiply_unsigned<1>(w, tile, y, {std::max(whole, steps.begin), steps.end});
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
