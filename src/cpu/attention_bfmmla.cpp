// Attention of the fast mode with Arm's matrix products of bfloat16. Compiled for processors that have them;
// attention_bf16.cpp asks before it calls.
#include "cpu/attention_bf16.hpp"

#if defined(__ARM_FEATURE_BF16)

#include <arm_neon.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "cpu/math.hpp"
#include "cpu/norm_rope.hpp"
#include "graph/graph.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kTile = graph::kTile;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Asks for a line of 32 elements that will be needed soon.
void fetch(const std::uint16_t* at) { asm volatile("prfm pldl2keep, [%0]" : : "r"(at)); }

bfloat16x8_t load(const std::uint16_t* at) { return vreinterpretq_bf16_u16(vld1q_u16(at)); }

// Pairs of heads. All sums of a row are its own: a head is the same bits in any company.
template <int Pairs>
class Attention {
 public:
  Attention(const AttentionJob& job, const link::KvCacheBf16& cache) : job_(job), cache_(cache), d_(cache.head_dim) {
    for (int head = 0; head < 2 * Pairs; ++head) {
      max_[head] = kMinusInfinity;
      sum_[head] = 0.0f;
      for (int i = 0; i < d_; i += 4) {
        const float32x4_t q = head < job.heads ? vld1q_f32(job.q[head] + i) : vdupq_n_f32(0.0f);
        vst1_u16(q_ + (i / 4 * Pairs + head / 2) * 8 + head % 2 * 4, vreinterpret_u16_bf16(vcvt_bf16_f32(q)));
      }
    }
    std::fill_n(out_, d_ * 2 * Pairs, 0.0f);
  }

  void run() {
    for (int tile = job_.first / kTile * kTile; tile <= job_.last; tile += kTile) {
      const int begin = std::max(job_.first - tile, 0), end = std::min(job_.last + 1 - tile, kTile);
      score(tile, begin, end);
      weigh(begin, end);
      mix(tile, begin, end);
    }
    finish();
  }

 private:
  const std::uint16_t* keys(int tile) const { return cache_.k + cache_.block(job_.slot, job_.kv_head, tile); }
  const std::uint16_t* values(int tile) const { return cache_.v + cache_.block(job_.slot, job_.kv_head, tile); }

  // scores_[head][begin..end) = q . K; the values of the tile, as many bytes, come meanwhile
  void score(int tile, int begin, int end) {
    const std::uint16_t* soon = values(tile) + begin / 8 * 8 * d_;
    for (int block = begin / 8 * 8; block < end; block += 8) {
      const std::uint16_t* k = keys(tile + block);
      float32x4_t sums[Pairs][4];
      for (auto& row : sums)
        for (float32x4_t& sum : row) sum = vdupq_n_f32(0.0f);
      for (int i = 0; i < d_ / 4; ++i, k += 32, soon += 32) {
        fetch(soon);
        const bfloat16x8_t key_pairs[4] = {load(k), load(k + 8), load(k + 16), load(k + 24)};
        for (int pair = 0; pair < Pairs; ++pair) {
          const bfloat16x8_t q = load(q_ + (i * Pairs + pair) * 8);
          for (int j = 0; j < 4; ++j) sums[pair][j] = vbfmmlaq_f32(sums[pair][j], q, key_pairs[j]);
        }
      }
      for (int pair = 0; pair < Pairs; ++pair)
        for (int j = 0; j < 4; ++j) {
          vst1_f32(scores_[2 * pair] + block + 2 * j, vget_low_f32(sums[pair][j]));
          vst1_f32(scores_[2 * pair + 1] + block + 2 * j, vget_high_f32(sums[pair][j]));
        }
    }
  }

  // Scores to probabilities, up to the final division; what is not visible has none.
  void weigh(int begin, int end) {
    for (int head = 0; head < 2 * Pairs; ++head) {
      float* s = scores_[head];
      std::fill(s, s + begin, kMinusInfinity);
      std::fill(s + end, s + kTile, kMinusInfinity);
      float32x4_t most = vdupq_n_f32(max_[head]);
      for (int i = 0; i < kTile; i += 4) most = vmaxq_f32(most, vld1q_f32(s + i));
      const float max = vmaxvq_f32(most);
      keep_[head] = exp(max_[head] - max);
      LAPIDARY_SIDE_BY_SIDE
      for (int i = 0; i < kTile; ++i) s[i] = exp(s[i] - max);
      float32x4_t sum = vdupq_n_f32(0.0f);
      for (int i = 0; i < kTile; i += 4) {
        const float32x4_t p = vld1q_f32(s + i);
        sum = vaddq_f32(sum, p);
        vst1_u16(p_ + (i / 4 * Pairs + head / 2) * 8 + head % 2 * 4, vreinterpret_u16_bf16(vcvt_bf16_f32(p)));
      }
      max_[head] = max;
      sum_[head] = fused(sum_[head], keep_[head], vaddvq_f32(sum));
    }
  }

  // out = out * keep + p V; the keys of the next tile, as many bytes, come meanwhile
  void mix(int tile, int begin, int end) {
    const std::uint16_t *v = values(tile), *soon = keys(std::min(tile + kTile, job_.last / kTile * kTile));
    float32x4_t keep[Pairs];
    for (int pair = 0; pair < Pairs; ++pair) {
      const float lanes[4] = {keep_[2 * pair], keep_[2 * pair], keep_[2 * pair + 1], keep_[2 * pair + 1]};
      keep[pair] = vld1q_f32(lanes);
    }
    const int first = begin / 4, last = (end + 3) / 4;  // quads of positions
    for (int i = 0; i < d_ / 8; ++i) {
      float* out = out_ + i * Pairs * 16;
      float32x4_t sums[Pairs][4];
      for (int pair = 0; pair < Pairs; ++pair)
        for (int j = 0; j < 4; ++j) sums[pair][j] = vmulq_f32(vld1q_f32(out + (pair * 4 + j) * 4), keep[pair]);
      const auto add = [&](int quad, auto visible) __attribute__((always_inline)) {
        const std::uint16_t* from = v + (i * 16 + quad) * 32;
        fetch(soon + (i * 16 + quad) * 32);
        bfloat16x8_t value_pairs[4];
        for (int j = 0; j < 4; ++j) value_pairs[j] = visible(vld1q_u16(from + 8 * j));
        for (int pair = 0; pair < Pairs; ++pair) {
          const bfloat16x8_t p = load(p_ + (quad * Pairs + pair) * 8);
          for (int j = 0; j < 4; ++j) sums[pair][j] = vbfmmlaq_f32(sums[pair][j], p, value_pairs[j]);
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

  void finish() {
    for (int head = 0; head < job_.heads; ++head)
      for (int i = 0; i < d_; i += 4) {
        const float* from = out_ + ((i / 8 * Pairs + head / 2) * 4 + i % 8 / 2) * 4 + head % 2 * 2;
        vst1q_f32(job_.out[head] + i, vdivq_f32(vcombine_f32(vld1_f32(from), vld1_f32(from + 4)), vdupq_n_f32(sum_[head])));
      }
  }

  const AttentionJob& job_;
  const link::KvCacheBf16& cache_;
  const int d_;
  float max_[2 * Pairs], sum_[2 * Pairs], keep_[2 * Pairs];
  alignas(64) float scores_[2 * Pairs][kTile];
  alignas(64) std::uint16_t p_[kTile * 2 * Pairs];               // [quad][pair][2 heads][4 positions]
  alignas(64) std::uint16_t q_[kMostHeadDim * 2 * Pairs];         // [d / 4][pair][2 heads][4]
  alignas(64) float out_[kMostHeadDim * 2 * Pairs];               // [d / 8][pair][4][2 heads][2]
};

void attend(const AttentionJob& job, const link::KvCacheBf16& cache) {
  switch ((job.heads + 1) / 2) {
    case 1: return Attention<1>(job, cache).run();
    case 2: return Attention<2>(job, cache).run();
    case 3: return Attention<3>(job, cache).run();
    default: return Attention<4>(job, cache).run();
  }
}

}  // namespace

AttendBf16 bfmmla_attention() { return attend; }

}  // namespace lapidary::cpu

#else

namespace lapidary::cpu {

AttendBf16 bfmmla_attention() { return nullptr; }

}  // namespace lapidary::cpu

#endif
