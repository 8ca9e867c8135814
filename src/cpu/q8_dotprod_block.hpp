// The way of one row of activations through weights by dot products: q8_dotprod_four.hpp and q8_dotprod_six.hpp, for 4 and 6 bits in
// groups of 64, q8_dotprod_mxfp4.hpp.
//
// Everything waits for these loops when tokens come one at a time. Each is one block, so that the end of a step costs next to nothing:
// its last sums are made during the first products of the next step. The orders were found by trial on a processor with four vector
// units, among those that keep two of them busy (q8_in_order.hpp says why it matters).
#pragma once

#include <cstddef>

#include "cpu/q8_in_order.hpp"
#include "cpu/q8_signed.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

struct RowBlock {
  const std::uint8_t* weights[kStreams];
  const void* q;
  const float* factors;
  const std::uint32_t* scales;
  std::int64_t groups;        // as a turn has them; two at least
  std::int64_t steps;         // one at least
  float* y;
  std::size_t to_next_step;   // from the end of a stream's row
  const std::uint8_t* ahead;
  const void* constants;
  float before[kStreams];     // a place for the sums before the first step, which are of no use
};
static_assert(offsetof(RowBlock, q) == 32 && offsetof(RowBlock, factors) == 40 && offsetof(RowBlock, scales) == 48 &&
              offsetof(RowBlock, groups) == 56 && offsetof(RowBlock, steps) == 64 && offsetof(RowBlock, y) == 72 &&
              offsetof(RowBlock, to_next_step) == 80 && offsetof(RowBlock, ahead) == 88 && offsetof(RowBlock, constants) == 96 &&
              offsetof(RowBlock, before) == 104);

// What a turn asks for where the rows of a step are neighbours: one stream, into the first cache a step ahead and into the second more.
#define LAPIDARY_FETCH_NEIGHBOURS_0 "prfm pldl1keep, [x13]\n"
#define LAPIDARY_FETCH_NEIGHBOURS_1 "prfm pldl1keep, [x13, #64]\n"
#define LAPIDARY_FETCH_NEIGHBOURS_2 "prfm pldl1keep, [x13, #128]\n"
#define LAPIDARY_FETCH_NEIGHBOURS_3 "prfm pldl2keep, [x13, %[near]]\n"
#define LAPIDARY_FETCH_NEIGHBOURS_4 "prfm pldl2keep, [x13, %[near_64]]\n"
#define LAPIDARY_FETCH_NEIGHBOURS_5 "prfm pldl2keep, [x13, %[near_128]]\n"
// And where they lie a quarter of the matrix apart: four streams, which the processor follows.
#define LAPIDARY_FETCH_QUARTERS_0 "prfm pldl1keep, [x1, #512]\n"
#define LAPIDARY_FETCH_QUARTERS_1 "prfm pldl1keep, [x2, #512]\n"
#define LAPIDARY_FETCH_QUARTERS_2 ""
#define LAPIDARY_FETCH_QUARTERS_3 "prfm pldl1keep, [x3, #512]\n"
#define LAPIDARY_FETCH_QUARTERS_4 "prfm pldl1keep, [x4, #512]\n"
#define LAPIDARY_FETCH_QUARTERS_5 ""

// Goes through the block that `block` names. With a TURN a group comes into the dots, the one before into the sums. It finds
//   x1 - x4  streams           x11, x12   scales and factors of the group before   v30               the upper halves of words
//   x10      activations       x13        what is fetched                          v0                sums
// and keeps the dots where it likes; those before the first group are of no use either. Dots begin with `fmov` of xzr: it takes no
// vector unit of a Neoverse V1, nor of an N1 as compilers describe it, where `movi` takes one; loads would slow the V1 down.
// BEGIN loads what else it wants from x9, the constants; NEXT moves the streams on, where the turn has not. FIRST loads the first group
// of a step, where a turn multiplies what the turn before has loaded and loads the group after: so the streams run a group ahead.
#define LAPIDARY_RUN_ROW_BLOCK(GROUP_BYTES, Q_BYTES, SCALE_BYTES, FACTOR_BYTES, TURN, BEGIN, NEXT, FIRST)                            \
  register RowBlock* at asm("x0") = &block;                                                                                         \
  asm volatile(                                                                                                                     \
      "ldp x1, x2, [x0]\n"                                                                                                          \
      "ldp x3, x4, [x0, #16]\n"                                                                                                     \
      "ldr x10, [x0, #32]\n"                                                                                                        \
      "ldp x12, x11, [x0, #40]\n"                                                                                                   \
      "ldp x16, x14, [x0, #56]\n" /* groups, steps left */                                                                          \
      "ldp x7, x6, [x0, #72]\n"   /* outputs of the next step, from one step to the next */                                         \
      "ldp x13, x9, [x0, #88]\n"                                                                                                    \
      "add x15, x0, #104\n"       /* outputs */                                                                                     \
      "mov x17, x11\n"            /* scales of the next step */                                                                     \
      "mvni v30.4s, #0xff, msl #8\n" BEGIN                                                                                          \
      "mov x9, %[scale_bytes]\n"                                                                                                    \
      "mul x9, x9, x16\n"         /* of a step */                                                                                   \
      "movi v0.2d, #0\n" FIRST                                                                                                      \
      ".p2align 5\n"                                                                                                                \
      /* The first group of a step; then the sums of the step before are complete. */                                               \
      "1:\n" TURN NEXT                                                                                                              \
      "add x10, x10, %[q_bytes]\n"                                                                                                  \
      "add x13, x13, %[fetched_bytes]\n"                                                                                            \
      "str q0, [x15]\n"                                                                                                             \
      "cbz x14, 3f\n"                                                                                                               \
      "mov x15, x7\n"                                                                                                               \
      "add x7, x7, #16\n"                                                                                                           \
      "movi v0.2d, #0\n"                                                                                                            \
      "mov x11, x17\n"                                                                                                              \
      "add x17, x17, x9\n"                                                                                                          \
      "ldr x12, [x0, #40]\n"                                                                                                        \
      "sub x5, x16, #1\n"                                                                                                           \
      ".p2align 5\n"                                                                                                                \
      /* The other groups. */                                                                                                       \
      "2:\n" TURN NEXT                                                                                                              \
      "add x10, x10, %[q_bytes]\n"                                                                                                  \
      "add x13, x13, %[fetched_bytes]\n"                                                                                            \
      "add x11, x11, %[scale_bytes]\n"                                                                                              \
      "add x12, x12, %[factor_bytes]\n"                                                                                             \
      "subs x5, x5, #1\n"                                                                                                           \
      "b.ne 2b\n"                                                                                                                   \
      "ldr x10, [x0, #32]\n"                                                                                                        \
      "subs x14, x14, #1\n"                                                                                                         \
      "csel x6, x6, x5, ne\n"     /* 0 after the last step */                                                                       \
      "add x1, x1, x6\n"                                                                                                            \
      "add x2, x2, x6\n"                                                                                                            \
      "add x3, x3, x6\n"                                                                                                            \
      "add x4, x4, x6\n" FIRST                                                                                                      \
      "b.ne 1b\n"                                                                                                                   \
      /* There is no group after: the last one again. */                                                                            \
      "sub x1, x1, %[group_bytes]\n"                                                                                                \
      "sub x2, x2, %[group_bytes]\n"                                                                                                \
      "sub x3, x3, %[group_bytes]\n"                                                                                                \
      "sub x4, x4, %[group_bytes]\n"                                                                                                \
      "b 1b\n"                                                                                                                      \
      "3:\n"                                                                                                                        \
      :                                                                                                                             \
      : "r"(at), [group_bytes] "n"(GROUP_BYTES), [fetched_bytes] "n"(kStreams * GROUP_BYTES), [q_bytes] "n"(Q_BYTES),               \
        [scale_bytes] "n"(SCALE_BYTES), [factor_bytes] "n"(FACTOR_BYTES), [near] "n"(kNearAhead),                                   \
        [near_64] "n"(kNearAhead + 64), [near_128] "n"(kNearAhead + 128)                                                            \
      : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "v0", "v1",         \
        "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", \
        "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "cc", "memory")

// Of neighbours the next step is fetched during this one.
LAPIDARY_INLINE const std::uint8_t* fetched_from(const Q8Weights& w, const Streams& streams) {
  return streams.at[0] + (kStreams - 1) * w.row_bytes + 1024;
}

inline constexpr int kRowBlockMaxCols = 24576;
inline constexpr int kRowBlockSteps = 256;  // of rows a quarter of the matrix apart, whose sums wait

// Groups of 32 or 64, two turns of 64 at least.
inline bool fits_row_block(const Q8Weights& w) { return w.cols >= 128 && w.cols % 64 == 0 && w.cols <= kRowBlockMaxCols; }

// a and a_sum of all groups, one after the other: what a turn reads again and again must not fill the nearest cache.
struct RowFactors {
  float at[kRowBlockMaxCols / 32][2];

  RowFactors(const Q8Tile& tile, int groups) {
    const auto* factors = reinterpret_cast<const SignedFactors*>(tile.factors);
    for (int g = 0; g < groups; ++g) at[g][0] = factors[g].a, at[g][1] = factors[g].a_sum;
  }
};

// Calls run(block) for those of the steps whose four rows are there, and returns the steps that are left. q, factors: the activations,
// two factors for each group; group_words: of scales
template <Order kOrder, class Run>
LAPIDARY_INLINE Range run_row_blocks(const Q8Weights& w, const void* q, const float* factors, int group_words, float* y, Range steps, Run run) {
  constexpr bool kNeighbours = kOrder == Order::neighbours;
  if (!kNeighbours && w.rows % kStreams != 0) return steps;
  const Range whole{steps.begin, kNeighbours ? std::max(steps.begin, std::min(steps.end, w.rows / kStreams)) : steps.end};
  const int groups = w.cols / w.format.group;
  for (Range part = whole; part.begin < whole.end; part.begin = part.end) {
    part.end = kNeighbours ? whole.end : std::min({whole.end, w.sweep.next_jump(part.begin), part.begin + kRowBlockSteps});
    const Streams streams(w, part.begin);
    float sums[kRowBlockSteps][kStreams];
    RowBlock block{.weights = {}, .q = q, .factors = factors,
                   .scales = w.scales + static_cast<std::size_t>(part.begin) * groups * group_words,
                   .groups = groups, .steps = part.end - part.begin, .y = kNeighbours ? y + part.begin * kStreams : sums[0],
                   .to_next_step = (kNeighbours ? kStreams : 1) * w.row_bytes - static_cast<std::size_t>(groups) * w.format.group_bytes(),
                   .ahead = fetched_from(w, streams), .constants = nullptr, .before = {}};
    std::copy_n(streams.at, kStreams, block.weights);
    run(block);
    if constexpr (!kNeighbours)
      for (int step = 0; step < block.steps; ++step)
        for (int i = 0; i < kStreams; ++i) y[streams.rows[i] + step] = sums[step][i];
  }
  return {whole.end, steps.end};
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
