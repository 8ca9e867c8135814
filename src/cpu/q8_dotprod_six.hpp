// Products of one row of activations with weights of 6 bits in groups of 64, by dot products of signed bytes: as RowGroup
// (q8_codes_arm.hpp) has them, with the activations in its order once for all steps.
#pragma once

#include "cpu/q8_codes_arm.hpp"
#include "cpu/q8_dotprod_block.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

// v23 - v25: how far up the lower fields of three vectors go, v26 - v28: the higher ones; v29: 63
#define LAPIDARY_SIX_BITS_TURN(FETCH) \
  "ldp q1, q2, [x2]\n"               "addp v7.4s, v6.4s, v7.4s\n" \
  "ushl v6.16b, v1.16b, v26.16b\n"   "ldp q5, q4, [x1]\n" \
  "ushl v8.16b, v2.16b, v24.16b\n"   "ushl v9.16b, v4.16b, v24.16b\n" \
  "ldp q11, q10, [x10]\n"            "ushl v12.16b, v5.16b, v23.16b\n" \
  "fmov d13, xzr\n"                  "and v12.16b, v12.16b, v29.16b\n" \
  "ldr q14, [x11]\n"                 "fmov d15, xzr\n" \
  "ldp q17, q16, [x10, #32]\n"       FETCH##_0 \
  "sdot v13.4s, v6.16b, v10.16b\n"   "ushl v2.16b, v2.16b, v27.16b\n" \
  "ldp q6, q18, [x3]\n"              FETCH##_2 \
  FETCH##_1                          "and v8.16b, v8.16b, v29.16b\n" \
  "ldr q19, [x1, #32]\n"             "ushl v5.16b, v5.16b, v26.16b\n" \
  "ushl v20.16b, v6.16b, v23.16b\n"  "and v9.16b, v9.16b, v29.16b\n" \
  "sdot v15.4s, v12.16b, v11.16b\n"  "ushl v12.16b, v6.16b, v26.16b\n" \
  "fmov d6, xzr\n"                   "sdot v13.4s, v2.16b, v16.16b\n" \
  "ushl v1.16b, v1.16b, v23.16b\n"   "and v2.16b, v14.16b, v30.16b\n" \
  "sdot v15.4s, v9.16b, v17.16b\n"   "ushl v9.16b, v18.16b, v27.16b\n" \
  "shl v14.4s, v14.4s, #16\n"        "sdot v15.4s, v5.16b, v10.16b\n" \
  "ldr q5, [x4, #32]\n"              "addp v3.4s, v3.4s, v7.4s\n" \
  "and v1.16b, v1.16b, v29.16b\n"    "sdot v13.4s, v1.16b, v11.16b\n" \
  "sdot v6.4s, v9.16b, v16.16b\n"    "scvtf v3.4s, v3.4s\n" \
  "ushl v4.16b, v4.16b, v27.16b\n"   "ldr q9, [x2, #32]\n" \
  "ushl v1.16b, v5.16b, v28.16b\n"   "sdot v13.4s, v8.16b, v17.16b\n" \
  "ldr d8, [x12]\n"                  FETCH##_3 \
  "ushl v5.16b, v5.16b, v25.16b\n"   "and v20.16b, v20.16b, v29.16b\n" \
  "and v5.16b, v5.16b, v29.16b\n"    "fmul v2.4s, v2.4s, v8.s[0]\n" \
  "ushl v7.16b, v9.16b, v25.16b\n"   "sdot v6.4s, v12.16b, v10.16b\n" \
  "ldr q12, [x3, #32]\n"             "ushl v9.16b, v9.16b, v28.16b\n" \
  "ldp q21, q22, [x10, #64]\n"       "sdot v6.4s, v20.16b, v11.16b\n" \
  "sdot v15.4s, v4.16b, v16.16b\n"   "ushl v4.16b, v19.16b, v28.16b\n" \
  "and v7.16b, v7.16b, v29.16b\n"    FETCH##_4 \
  "ushl v18.16b, v18.16b, v24.16b\n" "ushl v19.16b, v19.16b, v25.16b\n" \
  "sdot v13.4s, v7.16b, v21.16b\n"   "fmov d7, xzr\n" \
  "ushl v20.16b, v12.16b, v28.16b\n" "and v18.16b, v18.16b, v29.16b\n" \
  "sdot v7.4s, v5.16b, v21.16b\n"    "sdot v6.4s, v20.16b, v22.16b\n" \
  "ldp q20, q5, [x4]\n"              "sdot v13.4s, v9.16b, v22.16b\n" \
  "ushl v9.16b, v5.16b, v24.16b\n"   "sdot v7.4s, v1.16b, v22.16b\n" \
  "and v19.16b, v19.16b, v29.16b\n"  "and v9.16b, v9.16b, v29.16b\n" \
  "sdot v15.4s, v19.16b, v21.16b\n"  "sdot v7.4s, v9.16b, v17.16b\n" \
  "fmla v0.4s, v3.4s, v2.4s\n"       FETCH##_5 \
  "ushl v2.16b, v20.16b, v23.16b\n"  "ushl v5.16b, v5.16b, v27.16b\n" \
  "ushl v12.16b, v12.16b, v25.16b\n" "and v12.16b, v12.16b, v29.16b\n" \
  "sdot v15.4s, v4.16b, v22.16b\n"   "ushl v20.16b, v20.16b, v26.16b\n" \
  "fmla v0.4s, v14.4s, v8.s[1]\n"    "sdot v7.4s, v20.16b, v10.16b\n" \
  "sdot v6.4s, v18.16b, v17.16b\n"   "addp v3.4s, v15.4s, v13.4s\n" \
  "sdot v7.4s, v5.16b, v16.16b\n"    "sdot v6.4s, v12.16b, v21.16b\n" \
  "and v2.16b, v2.16b, v29.16b\n"    "sdot v7.4s, v2.16b, v11.16b\n"

// As multiply_in_blocks.
template <class Dot, Order kOrder>
Range multiply_six_bits(const Q8Weights& w, const std::int8_t* q, const float* factors, float* y, Range steps) {
  int8x16_t ordered[kRowBlockMaxCols / 64][3][2];
  for (int g = 0; g < w.cols / 64; ++g) {
    const RowGroup<Dot, Codes::u6, 64> activations(q + g * 64);
    for (int i = 0; i < 3; ++i) ordered[g][i][0] = activations.low[0][i], ordered[g][i][1] = activations.high[0][i];
  }
  return run_row_blocks<kOrder>(w, ordered, factors, kStreams, y, steps, [](RowBlock& block) {
    static_assert(offsetof(SixBits, up) == 0 && offsetof(SixBits, down) == 48);
    block.constants = &kSixBits;
#define LAPIDARY_RUN_SIX_BITS(FETCH) \
  LAPIDARY_RUN_ROW_BLOCK(48, 96, 4 * kStreams, sizeof(float[2]), LAPIDARY_SIX_BITS_TURN(FETCH), \
                         "ldp q23, q24, [x9]\n" "ldp q25, q26, [x9, #32]\n" "ldp q27, q28, [x9, #64]\n" "movi v29.16b, #63\n", \
                         "add x1, x1, #48\n" "add x2, x2, #48\n" "add x3, x3, #48\n" "add x4, x4, #48\n", "")
    if constexpr (kOrder == Order::neighbours) {
      LAPIDARY_RUN_SIX_BITS(LAPIDARY_FETCH_NEIGHBOURS);
    } else {
      LAPIDARY_RUN_SIX_BITS(LAPIDARY_FETCH_QUARTERS);
    }
#undef LAPIDARY_RUN_SIX_BITS
  });
}

#undef LAPIDARY_SIX_BITS_TURN

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
