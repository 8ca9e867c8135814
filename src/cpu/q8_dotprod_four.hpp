// Products of one row of activations with weights of 4 bits in groups of 64, by dot products of unsigned bytes (q8_unsigned.hpp).
#pragma once

#include "cpu/q8_dotprod_block.hpp"
#include "cpu/q8_unsigned.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

// v29: 128
#define LAPIDARY_FOUR_BITS_TURN \
  "addp v1.4s, v6.4s, v7.4s\n"       "ldp q4, q2, [x4], #32\n" \
  "ldr q5, [x11]\n"                  "ldp q9, q8, [x3], #32\n" \
  "ldr s7, [x8]\n"                   "ldp q10, q11, [x10]\n" \
  "ldr s6, [x8]\n"                   "ldr s12, [x8]\n" \
  "ldr s13, [x8]\n"                  "ldp q15, q14, [x10, #32]\n" \
  "addp v1.4s, v3.4s, v1.4s\n"       "ldp q16, q3, [x1], #32\n" \
  "udot v7.4s, v4.16b, v10.16b\n"    "udot v6.4s, v9.16b, v10.16b\n" \
  "ldp q17, q18, [x2], #32\n"        "prfm pldl2keep, [x13, %[near_64]]\n" \
  "prfm pldl1keep, [x13]\n"          "shl v19.16b, v16.16b, #4\n" \
  "ldr d20, [x11, #16]\n"            "shl v21.16b, v8.16b, #4\n" \
  "prfm pldl2keep, [x13, %[near]]\n" "shl v22.16b, v2.16b, #4\n" \
  "udot v12.4s, v17.16b, v10.16b\n"  "and v23.16b, v5.16b, v30.16b\n" \
  "ldr d24, [x12]\n"                 "shl v4.16b, v4.16b, #4\n" \
  "udot v13.4s, v16.16b, v10.16b\n"  "umlsl v1.4s, v20.4h, v29.4h\n" \
  "shl v9.16b, v9.16b, #4\n"         "prfm pldl1keep, [x13, #64]\n" \
  "shl v17.16b, v17.16b, #4\n"       "udot v6.4s, v8.16b, v15.16b\n" \
  "udot v12.4s, v18.16b, v15.16b\n"  "udot v13.4s, v3.16b, v15.16b\n" \
  "fsub v1.4s, v1.4s, v31.4s\n"      "shl v3.16b, v3.16b, #4\n" \
  "udot v7.4s, v4.16b, v11.16b\n"    "udot v6.4s, v21.16b, v14.16b\n" \
  "fmul v23.4s, v23.4s, v24.s[0]\n"  "shl v18.16b, v18.16b, #4\n" \
  "udot v13.4s, v19.16b, v11.16b\n"  "fmla v0.4s, v1.4s, v23.4s\n" \
  "udot v7.4s, v22.16b, v14.16b\n"   "udot v12.4s, v17.16b, v11.16b\n" \
  "shl v5.4s, v5.4s, #16\n"          "udot v13.4s, v3.16b, v14.16b\n" \
  "udot v12.4s, v18.16b, v14.16b\n"  "addp v3.4s, v13.4s, v12.4s\n" \
  "udot v7.4s, v2.16b, v15.16b\n"    "fmla v0.4s, v5.4s, v24.s[1]\n" \
  "udot v6.4s, v9.16b, v11.16b\n"

// For two groups and more; a last step of fewer than four rows goes the way of several activation rows.
inline void multiply_four_bits(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  const Range whole = whole_steps(w, steps);
  if (whole.begin < whole.end) {
    RowBlock block = row_block(w, tile, tile.q, kUnsignedWords, y[0], whole);
    LAPIDARY_RUN_ROW_BLOCK(32, 64, 4 * kUnsignedWords, sizeof(SignedFactors), LAPIDARY_FOUR_BITS_TURN, "movi v29.4h, #128\n", "");
  }
  multiply_unsigned<1>(w, tile, y, {whole.end, steps.end});
}

#undef LAPIDARY_FOUR_BITS_TURN

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
