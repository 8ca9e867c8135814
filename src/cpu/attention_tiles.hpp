// How attention of the fast mode walks tiles of positions, by one thread or by all together, whatever multiplies.
//
// A way to multiply is a template Heads<Pairs>: pairs of heads, all sums of a head its own. It stands in a namespace without a
// name, so that what is made from it here belongs to its file alone. It has
//   Factor, kFactors                 what queries and probabilities become, and how many of them an element does
//   round(head, from, count, to)     those of one head, rounded to bfloat16; from: [count]
//   score(q, k, soon, d, begin, end, scores)
//                                    scores[head][begin..end) = q . K of a tile; as many bytes of what comes `soon` are asked for
//   mix(p, keep, v, soon, begin, end, eighths, out)
//                                    out = out * keep + p V for these eighths of the elements; keep: [head]
//   finish(job, out, sums, eighths)  the job's outputs are those by the sums of their probabilities; sums: [head]
#pragma once

#include <algorithm>
#include <limits>
#include <utility>

#include "cpu/attention_bf16.hpp"
#include "cpu/attention_softmax.hpp"
#include "cpu/vec.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {  // g++ makes templates of local templates known to other files

template <template <int> class Heads>
class TiledAttention {
 public:
  // One thread: a tile for all jobs before the next one. Values come while keys are multiplied, the keys of the next tile while values
  // are.
  static void attend(std::span<const AttentionJob> jobs, const link::KvCacheBf16& cache) {
    const int d = cache.head_dim, count = static_cast<int>(jobs.size());
    alignas(64) typename Heads<kMaxPairs>::Factor q[kMaxHeadDim * kFactors<kMaxPairs>], p[kTile * kFactors<kMaxPairs>];
    alignas(64) float scores[2 * kMaxPairs][kTile], out[2 * kMaxPairs * kMaxHeadDim];
    AttentionState states[AttentionJob::kMaxTogether];
    std::fill_n(out, count * 2 * kMaxPairs * d, 0.0f);
    const auto with_each = [&](auto work) {
      for (int i = 0; i < count; ++i)
        with_pairs(jobs[i], [&]<int Pairs>() {
          work.template operator()<Pairs>(jobs[i], q + i * d * kFactors<kMaxPairs>, out + i * d * 2 * kMaxPairs, states[i]);
        });
    };
    with_each([&]<int Pairs>(const AttentionJob& job, auto* its_q, float*, AttentionState&) { round_queries<Pairs>(job, d, its_q); });
    const Range seen = tiles_of(jobs);
    for (int tile = seen.begin; tile < seen.end; ++tile)
      with_each([&]<int Pairs>(const AttentionJob& job, auto* its_q, float* its_out, AttentionState& state) {
        using H = Heads<Pairs>;
        const Tiles tiles{job, cache};
        if (tile < tiles.first() || tile > tiles.last()) return;
        const int begin = tiles.begin(tile), end = tiles.end(tile);
        float keep[2 * Pairs];
        H::score(its_q, tiles.keys(tile), tiles.values(tile), d, begin, end, scores);
        weigh_all(scores, 2 * Pairs, begin, end, state.max, state.sum, keep);
        for (int head = 0; head < 2 * Pairs; ++head) H::round(head, scores[head], kTile, p);
        H::mix(p, keep, tiles.values(tile), tiles.keys(std::min(tile + 1, tiles.last())), begin, end, {0, d / 8}, its_out);
      });
    with_each([&]<int Pairs>(const AttentionJob& job, auto*, float* its_out, AttentionState& state) {
      Heads<Pairs>::finish(job, its_out, state.sum, {0, d / 8});
    });
  }

  // All threads: tiles are shared for scores and probabilities, elements for the outputs. What comes soon is the thread's next tile.

  static void score_share(const AttentionJob& job, const link::KvCacheBf16& cache, Range chunk, AttentionState&,
                          AttentionRoom& room, Part part) {
    const Tiles tiles{job, cache};
    const int d = cache.head_dim;
    const Range mine = share(chunk.end - chunk.begin, part);
    with_pairs(job, [&]<int Pairs>() {
      using H = Heads<Pairs>;
      alignas(64) typename H::Factor q[kMaxHeadDim * kFactors<Pairs>];
      round_queries<Pairs>(job, d, q);
      for (int i = mine.begin; i < mine.end; ++i) {
        const int tile = chunk.begin + i, begin = tiles.begin(tile), end = tiles.end(tile);
        H::score(q, tiles.keys(tile), tiles.keys(std::min(tile + 1, tiles.last())), d, begin, end, room.scores[i]);
        for (int head = 0; head < 2 * Pairs; ++head) room.most[i][head] = find_most(room.scores[i][head], begin, end);
      }
    });
  }

  static void weigh_share(const AttentionJob& job, const link::KvCacheBf16&, Range chunk, AttentionState& state,
                          AttentionRoom& room, Part part) {
    const Range mine = share(chunk.end - chunk.begin, part);
    with_pairs(job, [&]<int Pairs>() {
      for (int head = 0; head < 2 * Pairs; ++head) {
        float max = state.max[head];
        for (int i = 0; i < mine.end; ++i) {
          const float before = std::exchange(max, std::max(max, room.most[i][head]));
          if (i < mine.begin) continue;
          room.keep[i][head] = numeric::exp_negative(before - max);
          room.sums[i][head] = weigh(room.scores[i][head], max);
          Heads<Pairs>::round(head, room.scores[i][head], kTile, factors<Pairs>(room, i));
        }
      }
    });
  }

  static void mix_share(const AttentionJob& job, const link::KvCacheBf16& cache, Range chunk, AttentionState& state,
                        AttentionRoom& room, Part part) {
    const Tiles tiles{job, cache};
    const Range mine = share(cache.head_dim / 8, part);
    with_pairs(job, [&]<int Pairs>() {
      using H = Heads<Pairs>;
      constexpr int kEighth = 8 * 2 * Pairs;  // floats
      if (chunk.begin == tiles.first()) std::fill(room.out + mine.begin * kEighth, room.out + mine.end * kEighth, 0.0f);
      for (int i = 0; i < chunk.end - chunk.begin; ++i) {
        const int tile = chunk.begin + i;
        H::mix(factors<Pairs>(room, i), room.keep[i], tiles.values(tile), tiles.values(std::min(tile + 1, tiles.last())),
               tiles.begin(tile), tiles.end(tile), mine, room.out);
        for (int head = 0; head < 2 * Pairs; ++head) {
          state.max[head] = std::max(state.max[head], room.most[i][head]);
          state.sum[head] = numeric::fused(state.sum[head], room.keep[i][head], room.sums[i][head]);
        }
      }
      if (chunk.end > tiles.last()) H::finish(job, room.out, state.sum, mine);
    });
  }

  static constexpr AttendTogether kTogether = {score_share, weigh_share, mix_share};

 private:
  static constexpr int kTile = graph::kTile, kMaxPairs = AttentionJob::kMaxHeads / 2;

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

  template <int Pairs>
  static constexpr int kFactors = 2 * Pairs * Heads<Pairs>::kFactors;  // of an element, for all heads

  // The place of a tile's probabilities.
  template <int Pairs>
  static auto factors(AttentionRoom& room, int tile) {
    using Factor = typename Heads<Pairs>::Factor;
    static_assert(sizeof room.p[tile] >= kTile * kFactors<Pairs> * sizeof(Factor));
    return reinterpret_cast<Factor*>(room.p[tile]);
  }

  // Calls f.operator()<Pairs>() for the pairs of the job's heads.
  template <class F>
  static void with_pairs(const AttentionJob& job, F f) {
    switch ((job.heads + 1) / 2) {
      case 1: return f.template operator()<1>();
      case 2: return f.template operator()<2>();
      case 3: return f.template operator()<3>();
      default: return f.template operator()<4>();
    }
  }

  // The last pair of an odd number of heads has one head twice.
  template <int Pairs>
  static void round_queries(const AttentionJob& job, int d, typename Heads<Pairs>::Factor* q) {
    for (int head = 0; head < 2 * Pairs; ++head) Heads<Pairs>::round(head, job.q[std::min(head, job.heads - 1)], d, q);
  }
};

// Asks for a line of 32 elements that will be needed soon.
[[gnu::always_inline]] inline void fetch(const std::uint16_t* at) { __builtin_prefetch(at, 0, 2); }

}  // namespace
}  // namespace lapidary::cpu
