#include "cpu/attention_bf16.hpp"

#include <algorithm>
#include <limits>

#include "cpu/features.hpp"
#include "cpu/math.hpp"
#include "cpu/norm_rope.hpp"
#include "cpu/share.hpp"
#include "graph/graph.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kTile = graph::kTile;

// One head, number by number.
void attend_head(const float* q, float* out, const AttentionJob& job, const link::KvCacheBf16& cache) {
  const int d = cache.head_dim;
  float rounded[kMostHeadDim];
  for (int i = 0; i < d; ++i) rounded[i] = from_bf16(to_bf16(q[i]));
  std::fill_n(out, d, 0.0f);
  float max = -std::numeric_limits<float>::infinity(), sum = 0.0f;
  for (int tile = job.first / kTile * kTile; tile <= job.last; tile += kTile) {
    const int begin = std::max(job.first, tile), end = std::min(job.last + 1, tile + kTile);
    float p[kTile];
    float tile_max = max;
    for (int t = begin; t < end; ++t) {
      float score = 0.0f;
      for (int i = 0; i < d; ++i)
        score = fused(rounded[i], from_bf16(cache.k[cache.key_index(job.slot, job.kv_head, t, i)]), score);
      p[t - begin] = score;
      tile_max = std::max(tile_max, score);
    }
    const float keep = exp(max - tile_max);
    float tile_sum = 0.0f;
    for (int t = begin; t < end; ++t) {
      const float weight = exp(p[t - begin] - tile_max);
      tile_sum += weight;
      p[t - begin] = from_bf16(to_bf16(weight));
    }
    max = tile_max;
    sum = fused(sum, keep, tile_sum);
    for (int i = 0; i < d; ++i) {
      float mixed = out[i] * keep;
      for (int t = begin; t < end; ++t)
        mixed = fused(p[t - begin], from_bf16(cache.v[cache.value_index(job.slot, job.kv_head, t, i)]), mixed);
      out[i] = mixed;
    }
  }
  for (int i = 0; i < d; ++i) out[i] /= sum;
}

void attend(const AttentionJob& job, const link::KvCacheBf16& cache) {
  for (int head = 0; head < job.heads; ++head) attend_head(job.q[head], job.out[head], job, cache);
}

}  // namespace

void qkv_norm_rope_bf16(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape,
                        bool values_are_keys, float epsilon, const link::KvCacheBf16* cache, Out q, Part part) {
  const int d = shape.head_dim;
  for_each_head(rows, qkv, angles, q_norm, k_norm, shape, values_are_keys, epsilon, cache != nullptr, q, part,
                [&](const graph::Row& row, int head, const float* key) {
                  for (int i = 0; i < d; ++i) cache->k[cache->key_index(row.slot, head, row.position, i)] = to_bf16(key[i]);
                },
                [&](const graph::Row& row, int head, const float* x, float factor) {
                  for (int i = 0; i < d; ++i)
                    cache->v[cache->value_index(row.slot, head, row.position, i)] = to_bf16(x[i] * factor);
                });
}

void attention_bf16(Rows rows, In q, const link::KvCacheBf16& cache, HeadShape shape, int window, Out out, Part part,
                    AttendBf16 attend) {
  for_each_share(pairs_of_heads(rows, shape), part, 1, [&](Range pairs) {
    for_each_job(rows, q, shape, window, out, pairs, [&](const AttentionJob& job) { attend(job, cache); });
  });
}

bool attends_together(Rows rows, HeadShape shape, int window, Part part) {
  constexpr int kPositions = 256;  // that pay for two more barriers
  const int heads_each = shape.heads / shape.kv_heads;
  const int jobs_each = (heads_each + AttentionJob::kMaxHeads - 1) / AttentionJob::kMaxHeads;
  const bool few = static_cast<int>(rows.size()) * shape.kv_heads * jobs_each < part.count;
  return few && rows.front().position >= kPositions && (!window || window >= kPositions);
}

AttendBf16 portable_attention() { return attend; }

AttendBf16 fastest_attention() {
  static const AttendBf16 fastest = has_bf16() && bfmmla_attention()     ? bfmmla_attention()
                                    : has_avx2_fma() && avx2_attention() ? avx2_attention()
                                                                         : attend;
  return fastest;
}

const AttendTogether* fastest_together() {
  return fastest_attention() == bfmmla_attention() ? bfmmla_together() : nullptr;
}

}  // namespace lapidary::cpu
