// Attention of the fast mode with Arm's matrix products of bfloat16. Compiled for processors that have them;
// instructions.hpp says who may call it.
#include "cpu/attention_bf16.hpp"

#include <arm_neon.h>

#include "cpu/attention_tiles.hpp"

namespace lapidary::cpu {
namespace {

using graph::kTile;

bfloat16x8_t load(const std::uint16_t* at) { return vreinterpretq_bf16_u16(vld1q_u16(at)); }

template <int Pairs>
struct Heads {
  using Factor = std::uint16_t;
  static constexpr int kFactors = 1;

  // to: [count / 4][pair][2 heads][4]
  static void round(int head, const float* from, int count, std::uint16_t* to) {
    for (int i = 0; i < count; i += 4)
      vst1_u16(to + (i / 4 * Pairs + head / 2) * 8 + head % 2 * 4, vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(from + i))));
  }

  static void score(const std::uint16_t* q, const std::uint16_t* k, const std::uint16_t* soon, int d, int begin, int end,
                    float (*scores)[kTile]) {
    const int first = begin / 8 * 8;
    k += first * d, soon += first * d;
    for (int block = first; block < end; block += 8) {
      float32x4_t sums[Pairs][4];
      for (auto& row : sums)
        for (float32x4_t& sum : row) sum = vdupq_n_f32(0.0f);
      for (int i = 0; i < d / 4; ++i, k += 32, soon += 32) {
        fetch(soon);
        const bfloat16x8_t key_pairs[4] = {load(k), load(k + 8), load(k + 16), load(k + 24)};
        for (int pair = 0; pair < Pairs; ++pair) {
          const bfloat16x8_t query = load(q + (i * Pairs + pair) * 8);
          for (int j = 0; j < 4; ++j) sums[pair][j] = vbfmmlaq_f32(sums[pair][j], query, key_pairs[j]);
        }
      }
      for (int pair = 0; pair < Pairs; ++pair)
        for (int j = 0; j < 4; ++j) {
          vst1_f32(scores[2 * pair] + block + 2 * j, vget_low_f32(sums[pair][j]));
          vst1_f32(scores[2 * pair + 1] + block + 2 * j, vget_high_f32(sums[pair][j]));
        }
    }
  }

  // out: [d / 8][pair][4][2 heads][2]
  static void mix(const std::uint16_t* p, const float* keep_of, const std::uint16_t* v, const std::uint16_t* soon, int begin,
                  int end, Range eighths, float* out_of_all) {
    float32x4_t keep[Pairs];
    for (int pair = 0; pair < Pairs; ++pair)
      keep[pair] = vcombine_f32(vdup_n_f32(keep_of[2 * pair]), vdup_n_f32(keep_of[2 * pair + 1]));
    const int first = begin / 4, last = (end + 3) / 4;  // quads of positions
    for (int i = eighths.begin; i < eighths.end; ++i) {
      float* out = out_of_all + i * Pairs * 16;
      float32x4_t sums[Pairs][4];
      for (int pair = 0; pair < Pairs; ++pair)
        for (int j = 0; j < 4; ++j) sums[pair][j] = vmulq_f32(vld1q_f32(out + (pair * 4 + j) * 4), keep[pair]);
      const auto add = [&](int quad, auto visible) __attribute__((always_inline)) {
        const std::uint16_t* from = v + (i * 16 + quad) * 32;
        fetch(soon + (i * 16 + quad) * 32);
        bfloat16x8_t value_pairs[4];
        for (int j = 0; j < 4; ++j) value_pairs[j] = visible(vld1q_u16(from + 8 * j));
        for (int pair = 0; pair < Pairs; ++pair) {
          const bfloat16x8_t weights = load(p + (quad * Pairs + pair) * 8);
          for (int j = 0; j < 4; ++j) sums[pair][j] = vbfmmlaq_f32(sums[pair][j], weights, value_pairs[j]);
        }
      };
      const auto whole = [](uint16x8_t x) __attribute__((always_inline)) { return vreinterpretq_bf16_u16(x); };
      for (int quad = first; quad < last; ++quad) {
        if (quad * 4 >= begin && quad * 4 + 4 <= end) {
          add(quad, whole);
          continue;
        }
        // What others left at invisible positions may not even be numbers: it must not be touched.
        std::uint16_t lanes[8];
        for (int t = 0; t < 4; ++t) lanes[t] = lanes[4 + t] = quad * 4 + t >= begin && quad * 4 + t < end ? 0xffff : 0;
        const uint16x8_t mask = vld1q_u16(lanes);
        add(quad, [mask](uint16x8_t x) __attribute__((always_inline)) { return vreinterpretq_bf16_u16(vandq_u16(x, mask)); });
      }
      for (int pair = 0; pair < Pairs; ++pair)
        for (int j = 0; j < 4; ++j) vst1q_f32(out + (pair * 4 + j) * 4, sums[pair][j]);
    }
  }

  static void finish(const AttentionJob& job, const float* out, const float* sums, Range eighths) {
    for (int head = 0; head < job.heads; ++head)
      for (int i = 8 * eighths.begin; i < 8 * eighths.end; i += 4) {
        const float* from = out + ((i / 8 * Pairs + head / 2) * 4 + i % 8 / 2) * 4 + head % 2 * 2;
        vst1q_f32(job.out[head] + i, vdivq_f32(vcombine_f32(vld1_f32(from), vld1_f32(from + 4)), vdupq_n_f32(sums[head])));
      }
  }
};

}  // namespace

const AttentionKernels kBfmmlaAttention = {"bfmmla", TiledAttention<Heads>::attend, &TiledAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
