// Attention over all rows of a tower with Arm's matrix products of bfloat16. Compiled for processors that have them; instructions.hpp says
// who may call it.
//
// 12 rows at a time meet the keys in chunks of 256, whose scores stay in the nearest cache. Everything of a pair of rows lies in blocks of
// 2 x 2, as bfmmla gives and takes it: scores [quad of keys][pair of rows][2][2 rows][2 keys], outputs [eighth of the head][pair of
// rows][4][2 rows][2]. Between chunks outputs are scaled to the new largest score. Probabilities are exp to 1.1e-4 of themselves, then rounded;
// their sum is not.
#include <arm_neon.h>

#include <algorithm>
#include <limits>

#include "cpu/tower_product.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kRows = PackedAttention::kRows, kPairs = kRows / 2, kChunk = 256, kMaxHead = PackedAttention::kMaxHeadDim;

bfloat16x8_t load(const std::uint16_t* at) { return vreinterpretq_bf16_u16(vld1q_u16(at)); }

constexpr float kLog2E = 1.44269504f;

// 2^x for x near or below 0; less than -126, minus infinity too, counts as that. 1 for 0.
[[gnu::always_inline]] inline float32x4_t exp2_of(float32x4_t x) {
  x = vmaxq_f32(x, vdupq_n_f32(-126.0f));
  const float32x4_t round = vdupq_n_f32(12582912.0f);  // leaves the nearest integer in the low bits
  const float32x4_t shifted = vaddq_f32(x, round), r = vsubq_f32(x, vsubq_f32(shifted, round));
  float32x4_t series = vfmaq_f32(vdupq_n_f32(0.242210776f), vdupq_n_f32(0.0550086237f), r);
  series = vfmaq_f32(vdupq_n_f32(0.693282962f), series, r);
  series = vfmaq_f32(vdupq_n_f32(1.0f), series, r);
  const int32x4_t power = vshlq_n_s32(vreinterpretq_s32_f32(shifted), 23);
  return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(series), power));
}

// What both lanes of each row come to.
[[gnu::always_inline]] inline float32x4_t larger_lane(float32x4_t x) { return vmaxq_f32(x, vrev64q_f32(x)); }
[[gnu::always_inline]] inline float32x4_t both_lanes(float32x4_t x) { return vaddq_f32(x, vrev64q_f32(x)); }

struct State {
  float32x4_t max[kPairs], sum[kPairs];  // the rows' lanes twice each; of sums each lane has its own
  alignas(64) float scores[kChunk * kRows];
  alignas(64) std::uint16_t p[kChunk * kRows];
  alignas(64) float out[kMaxHead * kRows];
};

// q: [d / 4][pair][2][4]
void round_queries(int rows, In q, int d, std::uint16_t* to) {
  for (int i = 0; i < d; i += 4)
    for (int r = 0; r < kRows; ++r, to += 4) vst1_u16(to, vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(q[std::min(r, rows - 1)] + i))));
}

// Scores of the keys in blocks of 8, and the largest of each row; keys from `count` on are not seen.
void score(const std::uint16_t* q, const std::uint16_t* k, int d, int count, State& state, float32x4_t (&most)[kPairs]) {
  for (int key = 0; key < count; key += 8) {
    float32x4_t sums[kPairs][4];
    for (auto& row : sums)
      for (float32x4_t& sum : row) sum = vdupq_n_f32(0.0f);
    const std::uint16_t* query = q;
    for (int i = 0; i < d; i += 4, k += 32, query += 4 * kRows) {
      const bfloat16x8_t keys[4] = {load(k), load(k + 8), load(k + 16), load(k + 24)};
      for (int pair = 0; pair < kPairs; ++pair) {
        const bfloat16x8_t left = load(query + 8 * pair);
        for (int j = 0; j < 4; ++j) sums[pair][j] = vbfmmlaq_f32(sums[pair][j], left, keys[j]);
      }
    }
    if (count - key < 8)
      for (int j = 0; j < 4; ++j)
        for (int lane = 0; lane < 2; ++lane) {
          if (key + 2 * j + lane < count) continue;
          for (auto& row : sums) {
            row[j] = lane ? vsetq_lane_f32(-INFINITY, vsetq_lane_f32(-INFINITY, row[j], 1), 3)
                          : vsetq_lane_f32(-INFINITY, vsetq_lane_f32(-INFINITY, row[j], 0), 2);
          }
        }
    float* const to = state.scores + key * kRows;
    for (int pair = 0; pair < kPairs; ++pair) {
      most[pair] = vmaxq_f32(most[pair], vmaxq_f32(vmaxq_f32(sums[pair][0], sums[pair][1]), vmaxq_f32(sums[pair][2], sums[pair][3])));
      for (int j = 0; j < 4; ++j) vst1q_f32(to + (j / 2 * kPairs + pair) * 8 + j % 2 * 4, sums[pair][j]);
    }
  }
}

// Scores to probabilities, rounded: [quad of keys][pair][2 rows][4 keys]
void weigh(int quads, State& state) {
  for (int pair = 0; pair < kPairs; ++pair) {
    const float32x4_t offset = vmulq_n_f32(state.max[pair], -kLog2E);
    float32x4_t sum = state.sum[pair];
    for (int quad = 0; quad < quads; ++quad) {
      const float* from = state.scores + (quad * kPairs + pair) * 8;
      const float32x4_t a = exp2_of(vfmaq_n_f32(offset, vld1q_f32(from), kLog2E)), b = exp2_of(vfmaq_n_f32(offset, vld1q_f32(from + 4), kLog2E));
      sum = vaddq_f32(sum, vaddq_f32(a, b));
      const uint32x4_t left = vreinterpretq_u32_bf16(vcvtq_low_bf16_f32(a)), right = vreinterpretq_u32_bf16(vcvtq_low_bf16_f32(b));
      vst1q_u16(state.p + (quad * kPairs + pair) * 8, vreinterpretq_u16_u32(vzip1q_u32(left, right)));
    }
    state.sum[pair] = sum;
  }
}

// out = out * keep + p V; v: tiles of 64 keys, [d / 8][16 quads][4][2][4 keys]
void mix(const std::uint16_t* v, int d, int quads, const float32x4_t (&keep)[kPairs], State& state) {
  for (int i = 0; i < d / 8; ++i) {
    float* const out = state.out + i * kRows * 8;
    float32x4_t sums[kPairs][4];
    for (int pair = 0; pair < kPairs; ++pair)
      for (int j = 0; j < 4; ++j) sums[pair][j] = vmulq_f32(vld1q_f32(out + (pair * 4 + j) * 4), keep[pair]);
    const std::uint16_t* p = state.p;
    for (int first = 0; first < quads; first += 16) {
      const std::uint16_t* values = v + first * 4 * d + i * 16 * 32;
      for (int quad = first; quad < std::min(first + 16, quads); ++quad, values += 32, p += 4 * kRows) {
        const bfloat16x8_t right[4] = {load(values), load(values + 8), load(values + 16), load(values + 24)};
        for (int pair = 0; pair < kPairs; ++pair) {
          const bfloat16x8_t left = load(p + 8 * pair);
          for (int j = 0; j < 4; ++j) sums[pair][j] = vbfmmlaq_f32(sums[pair][j], left, right[j]);
        }
      }
    }
    for (int pair = 0; pair < kPairs; ++pair)
      for (int j = 0; j < 4; ++j) vst1q_f32(out + (pair * 4 + j) * 4, sums[pair][j]);
  }
}

void attend(int rows, In q, const std::uint16_t* k, const std::uint16_t* v, int keys, int d, Out out) {
  State state;
  alignas(64) std::uint16_t queries[kMaxHead * kRows];
  round_queries(rows, q, d, queries);
  std::fill_n(state.out, d * kRows, 0.0f);
  for (int pair = 0; pair < kPairs; ++pair) {
    state.max[pair] = vdupq_n_f32(-std::numeric_limits<float>::infinity());
    state.sum[pair] = vdupq_n_f32(0.0f);
  }
  for (int chunk = 0; chunk < keys; chunk += kChunk) {
    const int count = std::min(kChunk, keys - chunk), quads = (count + 7) / 8 * 2;
    float32x4_t most[kPairs], keep[kPairs];
    std::copy_n(state.max, kPairs, most);
    score(queries, k + static_cast<std::size_t>(chunk) * d, d, count, state, most);
    for (int pair = 0; pair < kPairs; ++pair) {
      most[pair] = larger_lane(most[pair]);
      keep[pair] = exp2_of(vmulq_n_f32(vsubq_f32(state.max[pair], most[pair]), kLog2E));
      state.max[pair] = most[pair];
      state.sum[pair] = vmulq_f32(state.sum[pair], keep[pair]);
    }
    weigh(quads, state);
    mix(v + static_cast<std::size_t>(chunk) * d, d, quads, keep, state);
  }
  for (int pair = 0; pair < kPairs; ++pair) {
    const float32x4_t sum = both_lanes(state.sum[pair]);
    for (int i = 0; i < d / 2; ++i) {
      const float32x4_t made = vdivq_f32(vld1q_f32(state.out + (i / 4 * kPairs + pair) * 16 + i % 4 * 4), sum);
      if (2 * pair < rows) vst1_f32(out[2 * pair] + 2 * i, vget_low_f32(made));
      if (2 * pair + 1 < rows) vst1_f32(out[2 * pair + 1] + 2 * i, vget_high_f32(made));
    }
  }
}

}  // namespace

const PackedAttention kBfmmlaPackedAttention = {attend};

}  // namespace lapidary::cpu
