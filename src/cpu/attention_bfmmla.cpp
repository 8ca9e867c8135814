// Attention of the fast mode with Arm's matrix products of bfloat16. Compiled for processors that have them;
// attention_bf16.cpp asks before it calls.
#include "cpu/attention_bf16.hpp"

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)

#include <arm_neon.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "cpu/math.hpp"
#include "cpu/norm_rope.hpp"

namespace lapidary::cpu {
namespace {

using graph::kTile;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Asks for a line of 32 elements that will be needed soon.
void fetch(const std::uint16_t* at) { asm volatile("prfm pldl2keep, [%0]" : : "r"(at)); }

bfloat16x8_t load(const std::uint16_t* at) { return vreinterpretq_bf16_u16(vld1q_u16(at)); }

// Not a number if one of them is not.
float larger(float a, float b) { return vget_lane_f32(vmax_f32(vdup_n_f32(a), vdup_n_f32(b)), 0); }

// Pairs of heads. All sums of a head are its own: it is the same bits in any company.
template <int Pairs>
struct Heads {
  static constexpr int kHeads = 2 * Pairs;

  // q: [d / 4][pair][2 heads][4]
  static void round_queries(const AttentionJob& job, int d, std::uint16_t* q) {
    for (int head = 0; head < kHeads; ++head)
      for (int i = 0; i < d; i += 4) {
        const float32x4_t from = head < job.heads ? vld1q_f32(job.q[head] + i) : vdupq_n_f32(0.0f);
        vst1_u16(q + (i / 4 * Pairs + head / 2) * 8 + head % 2 * 4, vreinterpret_u16_bf16(vcvt_bf16_f32(from)));
      }
  }

  // scores[head * stride + begin..end) = q . K of a tile; as many bytes of what comes `soon` are asked for meanwhile
  static void score(const std::uint16_t* q, const std::uint16_t* k, const std::uint16_t* soon, int d, int begin, int end,
                    float* scores, int stride) {
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
          vst1_f32(scores + 2 * pair * stride + block + 2 * j, vget_low_f32(sums[pair][j]));
          vst1_f32(scores + (2 * pair + 1) * stride + block + 2 * j, vget_high_f32(sums[pair][j]));
        }
    }
  }

  // The largest visible score of a tile; the others are hidden. s: [kTile]
  static float find_most(float* s, int begin, int end) {
    std::fill(s, s + begin, kMinusInfinity);
    std::fill(s + end, s + kTile, kMinusInfinity);
    float32x4_t most = vdupq_n_f32(kMinusInfinity);
    for (int i = 0; i < kTile; i += 4) most = vmaxq_f32(most, vld1q_f32(s + i));
    return vmaxvq_f32(most);
  }

  // Scores to probabilities, up to the final division; returns their sum. p: [quad][pair][2 heads][4 positions]
  static float weigh(int head, float* s, float max, std::uint16_t* p) {
    LAPIDARY_SIDE_BY_SIDE
    for (int i = 0; i < kTile; ++i) s[i] = exp(s[i] - max);
    float32x4_t sum = vdupq_n_f32(0.0f);
    for (int i = 0; i < kTile; i += 4) {
      const float32x4_t weight = vld1q_f32(s + i);
      sum = vaddq_f32(sum, weight);
      vst1_u16(p + (i / 4 * Pairs + head / 2) * 8 + head % 2 * 4, vreinterpret_u16_bf16(vcvt_bf16_f32(weight)));
    }
    return vaddvq_f32(sum);
  }

  // out = out * keep + p V for these eighths of the elements; out: [d / 8][pair][4][2 heads][2], keep: [head]
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

// The tiles of a job, and what of each may be seen.
struct Tiles {
  const AttentionJob& job;
  const link::KvCacheBf16& cache;

  const std::uint16_t* keys(int tile) const { return cache.k + cache.block(job.slot, job.kv_head, tile * kTile); }
  const std::uint16_t* values(int tile) const { return cache.v + cache.block(job.slot, job.kv_head, tile * kTile); }
  int first() const { return job.first / kTile; }
  int last() const { return job.last / kTile; }
  int begin(int tile) const { return std::max(job.first - tile * kTile, 0); }
  int end(int tile) const { return std::min(job.last + 1 - tile * kTile, kTile); }
};

// One thread: values come while keys are multiplied, the keys of the next tile while values are.
template <int Pairs>
void attend_pairs(const AttentionJob& job, const link::KvCacheBf16& cache) {
  using H = Heads<Pairs>;
  const int d = cache.head_dim;
  alignas(64) std::uint16_t q[kMostHeadDim * H::kHeads], p[kTile * H::kHeads];
  alignas(64) float scores[H::kHeads][kTile], out[kMostHeadDim * H::kHeads];
  float max[H::kHeads], sum[H::kHeads], keep[H::kHeads];
  H::round_queries(job, d, q);
  std::fill_n(max, H::kHeads, kMinusInfinity);
  std::fill_n(sum, H::kHeads, 0.0f);
  std::fill_n(out, d * H::kHeads, 0.0f);
  const Tiles tiles{job, cache};
  for (int tile = tiles.first(); tile <= tiles.last(); ++tile) {
    const int begin = tiles.begin(tile), end = tiles.end(tile);
    H::score(q, tiles.keys(tile), tiles.values(tile), d, begin, end, scores[0], kTile);
    for (int head = 0; head < H::kHeads; ++head) {
      const float before = std::exchange(max[head], larger(max[head], H::find_most(scores[head], begin, end)));
      keep[head] = exp(before - max[head]);
      sum[head] = fused(sum[head], keep[head], H::weigh(head, scores[head], max[head], p));
    }
    H::mix(p, keep, tiles.values(tile), tiles.keys(std::min(tile + 1, tiles.last())), begin, end, {0, d / 8}, out);
  }
  H::finish(job, out, sum, {0, d / 8});
}

// Calls f.operator()<Pairs>() for the pairs of the job's heads.
template <class F>
void with_pairs(const AttentionJob& job, F f) {
  switch ((job.heads + 1) / 2) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    default: return f.template operator()<4>();
  }
}

void attend(const AttentionJob& job, const link::KvCacheBf16& cache) {
  with_pairs(job, [&]<int Pairs>() { attend_pairs<Pairs>(job, cache); });
}

// All threads: tiles are shared for scores and probabilities, elements for the outputs. What comes soon is the thread's next tile.

void score_share(const AttentionJob& job, const link::KvCacheBf16& cache, Range chunk, AttentionState&, AttentionRoom& room,
                 Part part) {
  const Tiles tiles{job, cache};
  const int d = cache.head_dim;
  const Range mine = share(chunk.end - chunk.begin, part);
  with_pairs(job, [&]<int Pairs>() {
    using H = Heads<Pairs>;
    alignas(64) std::uint16_t q[kMostHeadDim * H::kHeads];
    H::round_queries(job, d, q);
    for (int i = mine.begin; i < mine.end; ++i) {
      const int tile = chunk.begin + i, begin = tiles.begin(tile), end = tiles.end(tile);
      H::score(q, tiles.keys(tile), tiles.keys(std::min(tile + 1, tiles.last())), d, begin, end, room.scores[i][0], kTile);
      for (int head = 0; head < H::kHeads; ++head) room.most[i][head] = H::find_most(room.scores[i][head], begin, end);
    }
  });
}

void weigh_share(const AttentionJob& job, const link::KvCacheBf16&, Range chunk, AttentionState& state, AttentionRoom& room,
                 Part part) {
  const Range mine = share(chunk.end - chunk.begin, part);
  with_pairs(job, [&]<int Pairs>() {
    using H = Heads<Pairs>;
    for (int head = 0; head < H::kHeads; ++head) {
      float max = state.max[head];
      for (int i = 0; i < mine.end; ++i) {
        const float before = std::exchange(max, larger(max, room.most[i][head]));
        if (i < mine.begin) continue;
        room.keep[i][head] = exp(before - max);
        room.sums[i][head] = H::weigh(head, room.scores[i][head], max, room.p[i]);
      }
    }
  });
}

void mix_share(const AttentionJob& job, const link::KvCacheBf16& cache, Range chunk, AttentionState& state, AttentionRoom& room,
               Part part) {
  const Tiles tiles{job, cache};
  const Range mine = share(cache.head_dim / 8, part);
  with_pairs(job, [&]<int Pairs>() {
    using H = Heads<Pairs>;
    constexpr int kEighth = 8 * H::kHeads;  // floats
    if (chunk.begin == tiles.first()) std::fill(room.out + mine.begin * kEighth, room.out + mine.end * kEighth, 0.0f);
    for (int i = 0; i < chunk.end - chunk.begin; ++i) {
      const int tile = chunk.begin + i;
      H::mix(room.p[i], room.keep[i], tiles.values(tile), tiles.values(std::min(tile + 1, tiles.last())), tiles.begin(tile),
             tiles.end(tile), mine, room.out);
      for (int head = 0; head < H::kHeads; ++head) {
        state.max[head] = larger(state.max[head], room.most[i][head]);
        state.sum[head] = fused(state.sum[head], room.keep[i][head], room.sums[i][head]);
      }
    }
    if (chunk.end > tiles.last()) H::finish(job, room.out, state.sum, mine);
  });
}

constexpr AttendTogether kTogether = {score_share, weigh_share, mix_share};

}  // namespace

AttendBf16 bfmmla_attention() { return attend; }
const AttendTogether* bfmmla_together() { return &kTogether; }

}  // namespace lapidary::cpu

#else

namespace lapidary::cpu {

AttendBf16 bfmmla_attention() { return nullptr; }
const AttendTogether* bfmmla_together() { return nullptr; }

}  // namespace lapidary::cpu

#endif
