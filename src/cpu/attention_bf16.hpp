// Attention of the fast mode: K and V in bfloat16, queries and probabilities rounded to it, sums in float32. The query heads
// of a row that share a K/V head are taken together, two by two; tiles of positions are walked as in the exact mode.
#pragma once

#include "checkpoint/bf16.hpp"
#include "cpu/kernels.hpp"
#include "link/kv.hpp"

namespace lapidary::cpu {

void qkv_norm_rope_bf16(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape,
                        bool values_are_keys, float epsilon, const link::KvCacheBf16* cache, Out q, Part part);

// One row's heads of one K/V head, all or some of them.
struct AttentionJob {
  static constexpr int kMaxHeads = 8;
  const float* q[kMaxHeads] = {};    // each [head_dim]
  float* out[kMaxHeads] = {};        // each [head_dim]
  int heads = 0;
  std::int32_t slot = 0, kv_head = 0;
  int first = 0, last = 0;           // the positions they see
};

// Each set of instructions sums products in its own order and rounding: results differ between them, never within one.
using AttendBf16 = void (*)(const AttentionJob& job, const link::KvCacheBf16& cache);
AttendBf16 portable_attention();
AttendBf16 bfmmla_attention();   // Arm with matrix products of bfloat16; null elsewhere
AttendBf16 avx2_attention();     // x86 with AVX2 and FMA; null elsewhere
AttendBf16 fastest_attention();  // on this processor

void attention_bf16(Rows rows, In q, const link::KvCacheBf16& cache, HeadShape shape, int window, Out out, Part part,
                    AttendBf16 attend = fastest_attention());

}  // namespace lapidary::cpu
