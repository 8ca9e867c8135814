// Products of one row of activations with weights of mxfp4, by dot products of signed bytes: as RowGroup (q8_codes_arm.hpp) has them, with
// the activations in its order once for all steps. A turn has two groups of 32.
#pragma once

#include "cpu/q8_codes_arm.hpp"
#include "cpu/q8_dotprod_block.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

// v3, v6, v7: dots of two streams, of the others; v2, v4, v5: those of the second group; v28: 15, v29: twice the value of each code.
// Scales are whole words: v30 is free.
#define LAPIDARY_MXFP4_TURN(FETCH) \
  FETCH##_3                             "addp v6.4s, v6.4s, v7.4s\n" \
  "ldp q7, q1, [x2], #32\n"             "ldr d8, [x12]\n" \
  "and v9.16b, v1.16b, v28.16b\n"       "ldp q10, q11, [x1], #32\n" \
  "ldp q13, q12, [x4], #32\n"           "ushr v14.16b, v7.16b, #4\n" \
  "and v15.16b, v7.16b, v28.16b\n"      "tbl v9.16b, { v29.16b }, v9.16b\n" \
  "ushr v16.16b, v10.16b, #4\n"         "and v10.16b, v10.16b, v28.16b\n" \
  "addp v4.4s, v4.4s, v5.4s\n"          "ushr v5.16b, v13.16b, #4\n" \
  "tbl v14.16b, { v29.16b }, v14.16b\n" "ldp q17, q18, [x3], #32\n" \
  "addp v3.4s, v3.4s, v6.4s\n"          "and v6.16b, v11.16b, v28.16b\n" \
  "fmov d19, xzr\n"                     "and v20.16b, v12.16b, v28.16b\n" \
  "ldp q22, q21, [x11]\n"               "ushr v1.16b, v1.16b, #4\n" \
  "ushr v23.16b, v17.16b, #4\n"         "ushr v12.16b, v12.16b, #4\n" \
  "tbl v24.16b, { v29.16b }, v5.16b\n"  "ushr v25.16b, v18.16b, #4\n" \
  "fmov d5, xzr\n"                      "fmov d7, xzr\n" \
  "tbl v15.16b, { v29.16b }, v15.16b\n" "tbl v23.16b, { v29.16b }, v23.16b\n" \
  "tbl v16.16b, { v29.16b }, v16.16b\n" "ushr v11.16b, v11.16b, #4\n" \
  "addp v2.4s, v2.4s, v4.4s\n"          "ldp q26, q27, [x10, #32]\n" \
  "tbl v6.16b, { v29.16b }, v6.16b\n"   "tbl v1.16b, { v29.16b }, v1.16b\n" \
  "and v13.16b, v13.16b, v28.16b\n"     "tbl v20.16b, { v29.16b }, v20.16b\n" \
  "and v18.16b, v18.16b, v28.16b\n"     "sdot v19.4s, v9.16b, v26.16b\n" \
  "fmov d9, xzr\n"                      "ldr d4, [x12, #8]\n"  \
  "tbl v10.16b, { v29.16b }, v10.16b\n" "tbl v13.16b, { v29.16b }, v13.16b\n" \
  "sdot v5.4s, v20.16b, v26.16b\n"      "ldp q20, q30, [x10]\n" \
  "tbl v25.16b, { v29.16b }, v25.16b\n" "and v17.16b, v17.16b, v28.16b\n" \
  "sdot v9.4s, v15.16b, v20.16b\n"      "sdot v19.4s, v1.16b, v27.16b\n" \
  "fmul v21.4s, v21.4s, v4.s[0]\n"      "tbl v11.16b, { v29.16b }, v11.16b\n" \
  "fmov d1, xzr\n"                      FETCH##_0 \
  "tbl v17.16b, { v29.16b }, v17.16b\n" "sdot v7.4s, v24.16b, v30.16b\n" \
  "fmul v8.4s, v22.4s, v8.s[0]\n"       "scvtf v3.4s, v3.4s\n" \
  "sdot v1.4s, v16.16b, v30.16b\n"      "fmov d16, xzr\n" \
  "scvtf v2.4s, v2.4s\n"                "sdot v9.4s, v14.16b, v30.16b\n" \
  "sdot v16.4s, v6.16b, v26.16b\n"      "fmov d6, xzr\n" \
  "tbl v12.16b, { v29.16b }, v12.16b\n" "fmov d4, xzr\n" \
  "tbl v18.16b, { v29.16b }, v18.16b\n" "sdot v6.4s, v23.16b, v30.16b\n" \
  "sdot v1.4s, v10.16b, v20.16b\n"      FETCH##_1 \
  "sdot v4.4s, v25.16b, v27.16b\n"      "fmla v0.4s, v3.4s, v8.4s\n" \
  "fmla v0.4s, v2.4s, v21.4s\n"         "sdot v5.4s, v12.16b, v27.16b\n" \
  FETCH##_4                             "sdot v7.4s, v13.16b, v20.16b\n" \
  "sdot v16.4s, v11.16b, v27.16b\n"     "addp v3.4s, v1.4s, v9.4s\n" \
  "sdot v4.4s, v18.16b, v26.16b\n"      "addp v2.4s, v16.4s, v19.4s\n" \
  "sdot v6.4s, v17.16b, v20.16b\n"

// As multiply_in_blocks.
template <class Dot, Order kOrder>
Range multiply_mxfp4(const Q8Weights& w, const std::int8_t* q, const float* factors, float* y, Range steps) {
  int8x16_t ordered[kRowBlockMaxCols / 32][2];
  for (int g = 0; g < w.cols / 32; ++g) {
    const RowGroup<Dot, Codes::e2m1, 32> activations(q + g * 32);
    ordered[g][0] = activations.even, ordered[g][1] = activations.odd;
  }
  return run_row_blocks<kOrder>(w, ordered, factors, kStreams, y, steps, [](RowBlock& block) {
    block.groups /= 2;
    block.constants = &kE2m1Values;
#define LAPIDARY_RUN_MXFP4(FETCH) \
  LAPIDARY_RUN_ROW_BLOCK(32, 64, 2 * 4 * kStreams, 2 * sizeof(float[2]), LAPIDARY_MXFP4_TURN(FETCH), \
                         "ldr q29, [x9]\n" "movi v28.16b, #15\n", "", "")
    if constexpr (kOrder == Order::neighbours) {
      LAPIDARY_RUN_MXFP4(LAPIDARY_FETCH_NEIGHBOURS);
    } else {
      LAPIDARY_RUN_MXFP4(LAPIDARY_FETCH_QUARTERS);
    }
#undef LAPIDARY_RUN_MXFP4
  });
}

#undef LAPIDARY_MXFP4_TURN

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
