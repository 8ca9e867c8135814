// Products of one row of activations with weights of 4 bits in groups of 64, by dot products of unsigned bytes (q8_unsigned.hpp).
#pragma once

#include "cpu/q8_dotprod_block.hpp"
#include "cpu/q8_unsigned.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

// v29: 128; v5, v6, v9, v14: the weights of the first two streams, a group ahead, so that loads across two lines of the cache have time
#define LAPIDARY_FOUR_BITS_TURN \
  "ldr d13, [x11, #16]\n"           "ldp q1, q7, [x10]\n" \
  "ldr q18, [x11]\n"                "ldr d3, [x12]\n" \
  "fmov d4, xzr\n"                  "fmov d8, xzr\n" \
  LAPIDARY_FETCH_NEIGHBOURS_0       "shl v24.16b, v6.16b, #4\n" \
  "ldp q22, q15, [x4], #32\n"       "addp v27.4s, v17.4s, v2.4s\n" \
  "ldp q19, q10, [x10, #32]\n"      "shl v12.16b, v14.16b, #4\n" \
  "fmov d2, xzr\n"                  "fmov d17, xzr\n" \
  "ldp q11, q23, [x3], #32\n"       "shl v16.16b, v23.16b, #4\n" \
  "shl v20.16b, v11.16b, #4\n"      "shl v26.16b, v9.16b, #4\n" \
  LAPIDARY_FETCH_NEIGHBOURS_1       "addp v21.4s, v21.4s, v27.4s\n" \
  "udot v4.4s, v5.16b, v1.16b\n"    "udot v4.4s, v6.16b, v19.16b\n" \
  "udot v8.4s, v14.16b, v19.16b\n"  "shl v14.16b, v5.16b, #4\n" \
  "shl v25.16b, v15.16b, #4\n"      "udot v2.4s, v22.16b, v1.16b\n" \
  "udot v8.4s, v9.16b, v1.16b\n"    "udot v8.4s, v26.16b, v7.16b\n" \
  "udot v4.4s, v24.16b, v10.16b\n"  "ldp q5, q6, [x1], #32\n" \
  "and v24.16b, v18.16b, v30.16b\n" "shl v18.4s, v18.4s, #16\n" \
  "shl v22.16b, v22.16b, #4\n"      LAPIDARY_FETCH_NEIGHBOURS_4 \
  "umlsl v21.4s, v13.4h, v29.4h\n"  "udot v4.4s, v14.16b, v7.16b\n" \
  "udot v17.4s, v23.16b, v19.16b\n" LAPIDARY_FETCH_NEIGHBOURS_3 \
  "ldp q9, q14, [x2], #32\n"        "udot v2.4s, v15.16b, v19.16b\n" \
  "udot v2.4s, v25.16b, v10.16b\n"  "udot v2.4s, v22.16b, v7.16b\n" \
  "udot v17.4s, v20.16b, v7.16b\n"  "scvtf v21.4s, v21.4s\n" \
  "fmul v24.4s, v24.4s, v3.s[0]\n"  "fmla v0.4s, v21.4s, v24.4s\n" \
  "udot v17.4s, v16.16b, v10.16b\n" "udot v8.4s, v12.16b, v10.16b\n" \
  "addp v21.4s, v4.4s, v8.4s\n"     "fmla v0.4s, v18.4s, v3.s[1]\n" \
  "udot v17.4s, v11.16b, v1.16b\n"

// For a matrix that fits; a last step of fewer than four rows goes the way of several activation rows.
inline void multiply_four_bits(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  const RowFactors factors(tile, w.cols / 64);
  steps = run_row_blocks<Order::neighbours>(w, tile.q, factors.at[0], kUnsignedWords, y[0], steps, [](RowBlock& block) {
    for (int i = 0; i < 2; ++i) block.weights[i] += 32;
    LAPIDARY_RUN_ROW_BLOCK(32, 64, 4 * kUnsignedWords, sizeof(float[2]), LAPIDARY_FOUR_BITS_TURN, "movi v29.4h, #128\n", "",
                           "ldp q5, q6, [x1, #-32]\n" "ldp q9, q14, [x2, #-32]\n");
  });
  multiply_unsigned<1>(w, tile, y, steps);
}

#undef LAPIDARY_FOUR_BITS_TURN

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
