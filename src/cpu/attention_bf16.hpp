// Attention of the fast mode: K and V in bfloat16, queries and probabilities rounded to it, sums in float32. The query heads
// of a row that share a K/V head are taken together, two by two; tiles of positions are walked as in the exact mode.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

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
  static constexpr int kMaxTogether = 8;  // jobs
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
  // On codes: queries, rotated.
  alignas(64) std::byte queries[kHeads * kMaxHeadDim * sizeof(float)], turned_queries[kHeads * kMaxHeadDim / 2 * sizeof(float)];
  float query_steps[kHeads], turned_steps[kHeads];
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

// The tiles that any of the jobs sees.
[[gnu::always_inline]] inline Range tiles_of(std::span<const AttentionJob> jobs) {
  Range tiles{jobs[0].first / graph::kTile, 0};
  for (const AttentionJob& job : jobs)
    tiles = {std::min(tiles.begin, job.first / graph::kTile), std::max(tiles.end, job.last / graph::kTile + 1)};
  return tiles;
}

// Jobs that one thread takes at a time: what it keeps of them has room for one with the largest heads.
inline int most_together(HeadShape shape) { return std::clamp(kMaxHeadDim / shape.head_dim, 1, AttentionJob::kMaxTogether); }

// Calls attend(jobs) for what this part does of all: jobs that read the same K/V of one session, which come from memory once for all
// of them.
template <class Attend>
void for_each_jobs(Rows rows, In q, HeadShape shape, int window, Out out, Part part, Attend attend) {
  const int total = pairs_of_heads(rows, shape), most = most_together(shape), pairs_each = (shape.heads / shape.kv_heads + 1) / 2;
  const int grain = std::min((total + part.count - 1) / part.count, most * pairs_each);
  for_each_share(total, part, grain, [&](Range pairs) {
    AttentionJob jobs[AttentionJob::kMaxTogether];
    int count = 0;
    const auto attend_all = [&] {
      if (count > 0) attend(std::span<const AttentionJob>(jobs, static_cast<std::size_t>(count)));
      count = 0;
    };
    for_each_job(rows, q, shape, window, out, pairs, [&](const AttentionJob& job) {
      if (count == most || (count > 0 && (job.slot != jobs[0].slot || job.kv_head != jobs[0].kv_head))) attend_all();
      jobs[count++] = job;
    });
    attend_all();
  });
}

bool attends_together(Rows rows, HeadShape shape, int window, Part part);

// Each way sums products in its own order and rounding, a numeric class of its own: results differ between them, never within
// one.
struct AttentionKernels {
  const char* name;
  void (*attend)(std::span<const AttentionJob> jobs, const link::KvCacheBf16& cache);  // of for_each_jobs
  const AttendTogether* together;  // null where every head is the work of one thread
};

// Those of other families of processors are not in the program; instructions.hpp says which ones this processor can run.
extern const AttentionKernels kVectorAttention;  // with vectors of four floats
extern const AttentionKernels kBfmmlaAttention;  // Arm with matrix products of bfloat16
extern const AttentionKernels kAvx2Attention;    // x86 with AVX2 and FMA
extern const AttentionKernels kAvx512Attention;  // x86 with AVX-512

void block_qkv_bf16(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, float query_scale,
                    float epsilon, const link::KvCacheBf16& cache, Out q, Part part);

void attention_bf16(Rows rows, In q, const link::KvCacheBf16& cache, HeadShape shape, int window, Out out, Part part,
                    const AttentionKernels& kernels);

}  // namespace lapidary::cpu
