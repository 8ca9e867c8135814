// Attention of the fast mode: K and V in bfloat16, queries and probabilities rounded to it, sums in float32. The query heads
// of a row that share a K/V head are taken together, two by two; tiles of positions are walked as in the exact mode.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "cpu/kernels.hpp"
#include "cpu/norm_rope.hpp"
#include "cpu/share.hpp"
#include "graph/graph.hpp"
#include "link/kv.hpp"
#include "numeric/bf16.hpp"

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

// Where there are fewer jobs than threads and many positions, all threads work on one job, chunk by chunk of positions: on
// shares of the positions for scores and probabilities, of the elements for the outputs. A barrier follows each. The bits are
// the same.
struct AttentionRoom {
  static constexpr int kTiles = 32, kHeads = AttentionJob::kMaxHeads;  // tiles of a chunk
  alignas(64) float scores[kTiles][kHeads][graph::kTile];
  alignas(64) std::byte p[kTiles][kHeads * graph::kTile * 2 * sizeof(float)];  // in the largest form of any way
  alignas(64) float most[kTiles][kHeads], keep[kTiles][kHeads], sums[kTiles][kHeads], steps[kTiles][kHeads];
  alignas(64) float out[kHeads * kMaxHeadDim];
};
// After the chunks so far; every thread has its own.
struct AttentionState {
  float max[AttentionJob::kMaxHeads], sum[AttentionJob::kMaxHeads] = {};
  [[gnu::always_inline]] AttentionState() { std::fill_n(max, AttentionJob::kMaxHeads, -std::numeric_limits<float>::infinity()); }
};
struct AttendTogether {
  using Share = void (*)(const AttentionJob& job, const link::KvCacheBf16& cache, Range chunk, AttentionState& state,
                         AttentionRoom& room, Part part);
  Share score, weigh, mix;
};

// Calls work(chunk) for the tiles of the positions that the job sees, as many at a time as a room holds.
template <class Work>
void for_each_chunk(const AttentionJob& job, Work work) {
  const int end = job.last / graph::kTile + 1;
  for (int tile = job.first / graph::kTile; tile < end; tile += AttentionRoom::kTiles)
    work(Range{tile, std::min(tile + AttentionRoom::kTiles, end)});
}

// Calls work(job) for the pairs of heads in the range: by K/V head, then row, so that neighbours find their keys in the cache.
template <class Work>
void for_each_job(Rows rows, In q, HeadShape shape, int window, Out out, Range range, Work work) {
  const int heads_each = shape.heads / shape.kv_heads, pairs = (heads_each + 1) / 2, row_count = static_cast<int>(rows.size());
  for (int index = range.begin; index < range.end;) {
    const int kv_head = index / pairs / row_count, r = index / pairs % row_count, pair = index % pairs;
    const int count = std::min({pairs - pair, range.end - index, AttentionJob::kMaxHeads / 2});
    const graph::Row& row = rows[r];
    AttentionJob job{.slot = row.slot, .kv_head = kv_head,
                     .first = window > 0 ? std::max(row.begin, row.position - window + 1) : row.begin,
                     .last = window > 0 ? row.block_end : row.position};
    for (int head = 2 * pair; head < std::min(2 * (pair + count), heads_each); ++head) {
      const std::size_t at = static_cast<std::size_t>(kv_head * heads_each + head) * shape.head_dim;
      job.q[job.heads] = q[r] + at;
      job.out[job.heads++] = out[r] + at;
    }
    work(job);
    index += count;
  }
}

// All pairs of heads of all rows, as for_each_job counts them.
inline int pairs_of_heads(Rows rows, HeadShape shape) {
  return shape.kv_heads * static_cast<int>(rows.size()) * ((shape.heads / shape.kv_heads + 1) / 2);
}

bool attends_together(Rows rows, HeadShape shape, int window, Part part);

// Each way sums products in its own order and rounding, a numeric class of its own: results differ between them, never within
// one.
struct AttentionKernels {
  const char* name;
  void (*attend)(const AttentionJob& job, const link::KvCacheBf16& cache);
  const AttendTogether* together;  // null where every head is the work of one thread
};

// Those of other families of processors are not in the program; instructions.hpp says which ones this processor can run.
extern const AttentionKernels kVectorAttention;  // with vectors of four floats
extern const AttentionKernels kBfmmlaAttention;  // Arm with matrix products of bfloat16
extern const AttentionKernels kAvx2Attention;    // x86 with AVX2 and FMA

void block_qkv_bf16(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, float query_scale,
                    float epsilon, const link::KvCacheBf16& cache, Out q, Part part);

void attention_bf16(Rows rows, In q, const link::KvCacheBf16& cache, HeadShape shape, int window, Out out, Part part,
                    const AttentionKernels& kernels);

}  // namespace lapidary::cpu
