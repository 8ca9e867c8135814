// Attention on K/V that are codes with scales (numeric/kv_codes.hpp): of layers that keep every position, in both numeric modes.
//
// Queries are rotated once, and the mixture of values is rotated back once; keys and values never are. In the exact mode queries and
// probabilities are float32. In the fast mode they are whole numbers of 14 bits times a step of their own (a step for each head, and for
// the probabilities of each tile), which is less rounding than to bfloat16: sums of products are exact, and so the same bits by any
// instructions and in any order.
#pragma once

#include "cpu/attention_bf16.hpp"
#include "cpu/kv_cache_coded.hpp"

namespace lapidary::cpu {

// k_norm and cache are not null.
void qkv_norm_rope_coded(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, bool values_are_keys,
                         float epsilon, const KvCacheCoded& cache, Out q, Part part);

// As AttendTogether; before the first chunk heads are shared to rotate queries, after the last one to rotate back what came out.
struct AttendCodedTogether {
  using Share = void (*)(const AttentionJob& job, const KvCacheCoded& cache, Range chunk, AttentionState& state, AttentionRoom& room,
                         Part part);
  using HeadShare = void (*)(const AttentionJob& job, const KvCacheCoded& cache, const AttentionState& state, AttentionRoom& room, Part part);
  HeadShare begin;
  Share score, weigh, mix;
  HeadShare finish;
};

struct CodedAttentionKernels {
  const char* name;
  void (*attend)(std::span<const AttentionJob> jobs, const KvCacheCoded& cache);  // of for_each_jobs
  AttendCodedTogether together;
};

extern const CodedAttentionKernels kExactCodedAttention;     // float32: of the exact mode
extern const CodedAttentionKernels kPortableCodedAttention;  // of the fast mode, wherever there are no others
extern const CodedAttentionKernels kI8mmCodedAttention;      // Arm with matrix products of bytes
extern const CodedAttentionKernels kAvx2CodedAttention;      // x86 with AVX2 and FMA
extern const CodedAttentionKernels kAvx512CodedAttention;    // x86 with AVX-512 and VNNI

void attention_coded(Rows rows, In q, const KvCacheCoded& cache, HeadShape shape, int window, Out out, Part part,
                     const CodedAttentionKernels& kernels);

}  // namespace lapidary::cpu
