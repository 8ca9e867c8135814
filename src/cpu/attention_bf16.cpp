#include "cpu/attention_bf16.hpp"

#include <algorithm>

#include "cpu/norm_rope.hpp"
#include "cpu/share.hpp"
#include "graph/graph.hpp"

namespace lapidary::cpu {

namespace {

void store_heads(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, const HeadRule& rule,
                 const link::KvCacheBf16* cache, Out q, Part part) {
  const int d = shape.head_dim;
  for_each_head(rows, qkv, angles, q_norm, k_norm, shape, rule, cache != nullptr, q, part,
                [&](const graph::Row& row, int head, const float* key) {
                  std::uint16_t rounded[kMaxHeadDim];  // by a loop of its own, which has vectors
                  for (int i = 0; i < d; ++i) rounded[i] = numeric::to_bf16(key[i]);
                  std::uint16_t* to = cache->k + cache->key_index(row.slot, head, row.position, 0);
                  for (int i = 0; i < d; i += 4) std::copy_n(rounded + i, 4, to + cache->key_offset(i));
                },
                [&](const graph::Row& row, int head, const float* x, float factor) {
                  std::uint16_t rounded[kMaxHeadDim];
                  for (int i = 0; i < d; ++i) rounded[i] = numeric::to_bf16(x[i] * factor);
                  std::uint16_t* to = cache->v + cache->value_index(row.slot, head, row.position, 0);
                  for (int i = 0; i < d; i += 8)
                    for (int j = 0; j < 8; ++j) to[cache->value_offset(i) + j * 4] = rounded[i + j];
                });
}

}  // namespace

void qkv_norm_rope_bf16(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape,
                        bool values_are_keys, float epsilon, const link::KvCacheBf16* cache, Out q, Part part) {
  store_heads(rows, qkv, angles, q_norm, k_norm, shape, {.values_are_keys = values_are_keys, .epsilon = epsilon}, cache, q, part);
}

void block_qkv_bf16(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, float query_scale,
                    float epsilon, const link::KvCacheBf16& cache, Out q, Part part) {
  store_heads(rows, qkv, angles, q_norm, k_norm, shape,
              {.values_as_they_are = true, .query_scale = query_scale, .epsilon = epsilon}, &cache, q, part);
}

void attention_bf16(Rows rows, In q, const link::KvCacheBf16& cache, HeadShape shape, int window, Out out, Part part,
                    const AttentionKernels& kernels) {
  for_each_jobs(rows, q, shape, window, out, part, [&](std::span<const AttentionJob> jobs) { kernels.attend(jobs, cache); });
}

bool attends_together(Rows rows, HeadShape shape, int window, Part part) {
  constexpr int kPositions = 256;  // that pay for two more barriers
  const int heads_each = shape.heads / shape.kv_heads;
  const int jobs_each = (heads_each + AttentionJob::kMaxHeads - 1) / AttentionJob::kMaxHeads;
  const bool few = static_cast<int>(rows.size()) * shape.kv_heads * jobs_each < part.count;
  return few && rows.front().position >= kPositions && (!window || window >= kPositions);
}

}  // namespace lapidary::cpu
