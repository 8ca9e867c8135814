// How attention on codes walks tiles of positions, by one thread or by all together, whatever multiplies.
//
// A way to multiply is a template Heads<Pairs>: pairs of heads, all sums of a head its own. It stands in a namespace without a
// name, so that what is made from it here belongs to its file alone. It has
//   Factor, kFactors                     what queries become, and how many of them an element does; no more for probabilities
//   round_query(head, from, n, to)       those of one head; returns the step that they are multiples of. from: [n]
//   round_weights(head, from, to)        the same for a tile of probabilities
//   score(lines, q, n, soon, done)       q . codes of 8 positions, n eighths of the elements: calls soon(i) when it reads eighth i, to
//                                        ask for what comes soon, and done(head, sums) in the end
//   score_turned(block, q, n, soon, done)
//                                        the same of a block of values; both may read an eighth more
//   mix(lines, p, soon, keep, steps, out)
//                                        out = out * keep + p . codes * step for 8 elements of a tile; out: of all heads, in an order of
//                                        its own; keep, steps: [head]
//   place(head, i)                       where element i of those 8 lies in it
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSSE3__)
#include <immintrin.h>
#endif

#include "cpu/attention_coded.hpp"
#include "cpu/attention_softmax.hpp"
#include "cpu/vec.hpp"
#include "numeric/kv_codes.hpp"

namespace lapidary::cpu {
namespace {  // as in attention_tiles.hpp

// Codes of 8 rows, positions for scores and elements for mixtures: rows 2 j and 2 j + 1, columns 8 i to 8 i + 7, lie at
// data + i * stride + j * 16, [2][8].
struct CodeLines {
  const std::int8_t* data;
  int stride;  // bytes
};

// What is added to it is rounded to the nearest integer, ties to even: 1.5 * 2^23. Every file has its own, as of kQ4Codes.
constexpr float kRound = 12582912.0f;

// The largest magnitude of numbers, if there is something to divide by it. What is not a number is larger than all others.
struct Largest {
  float most;
  [[gnu::always_inline]] bool is_nothing() const { return most <= 0x1p-100f; }
  [[gnu::always_inline]] bool is_number() const { return most < std::numeric_limits<float>::infinity(); }
  // The step of multiples of which `count` are the largest.
  [[gnu::always_inline]] float step(float count) const { return is_nothing() ? 0.0f : is_number() ? most / count : std::numeric_limits<float>::quiet_NaN(); }
};
[[gnu::always_inline]] inline Largest largest_of(const float* x, int n) {
  std::uint32_t bits = 0;
  for (int i = 0; i < n; ++i) bits = std::max(bits, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
  return {std::bit_cast<float>(bits)};
}

// x as whole numbers of at most 13 bits and a sign; returns the step that they are multiples of. What is not a number is in the step.
[[gnu::always_inline]] inline float round_to_steps(const float* x, int n, std::int16_t* to) {
  constexpr float kMost = 8191.0f;  // sums over 2048 codes have 31 bits
  const Largest largest = largest_of(x, n);
  if (largest.is_nothing() || !largest.is_number()) {
    std::fill_n(to, n, std::int16_t{0});
  } else {
    const float factor = kMost / largest.most;
    for (int i = 0; i < n; ++i)
      to[i] = static_cast<std::int16_t>(std::bit_cast<std::int32_t>(x[i] * factor + kRound) - std::bit_cast<std::int32_t>(kRound));
  }
  return largest.step(kMost);
}

// Weights of a tile as bytes. x: [kTile], none below 0
[[gnu::always_inline]] inline float round_to_bytes(const float* x, std::uint8_t* to) {
  constexpr float kMost = 255.0f;
  const Largest largest = largest_of(x, graph::kTile);
  if (largest.is_nothing() || !largest.is_number()) {
    std::fill_n(to, graph::kTile, std::uint8_t{0});
  } else {
    const float factor = kMost / largest.most;
    for (int i = 0; i < graph::kTile; ++i) to[i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(x[i] * factor + kRound));
  }
  return largest.step(kMost);
}

// out = out * keep + sums * step, of a head; out: [head][8]
[[gnu::always_inline]] inline auto add_to(float* out, const float* keep, const float* steps) {
  return [=](int head, Vec sums) __attribute__((always_inline)) {
    fused(Vec::load(out + head * 8), Vec::broadcast(keep[head]), sums * Vec::broadcast(steps[head])).store(out + head * 8);
  };
}

using Bytes = std::uint8_t __attribute__((vector_size(16)));
[[gnu::always_inline]] inline Bytes load(const std::int8_t* at) {
  Bytes bytes;
  std::memcpy(&bytes, at, sizeof bytes);
  return bytes;
}
[[gnu::always_inline]] inline void store(std::int8_t* at, Bytes bytes) { std::memcpy(at, &bytes, sizeof bytes); }

// Codes of 8 columns, rows 0 to 3 or 4 to 7.
struct HalfLine {
  Bytes rows[2];  // of two
};
// Half of the positions of 8 elements of a block of values, in the order of keys.
[[gnu::always_inline]] inline HalfLine turn_around(const std::int8_t* eighth, int half) {
  Bytes two[4];  // elements
  for (int j = 0; j < 4; ++j) two[j] = load(eighth + j * 16);
  // Every second word of 4 bytes: those positions of 4 elements.
  const auto words_of = [half](Bytes a, Bytes b) __attribute__((always_inline)) {
    return half == 0 ? __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
                     : __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  };
  const Bytes a = words_of(two[0], two[1]), b = words_of(two[2], two[3]);
  // Bytes 0 of all words, then bytes 1; bytes 2, then 3.
  return {{__builtin_shufflevector(a, b, 0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29),
           __builtin_shufflevector(a, b, 2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31)}};
}
// A block of values in the order of keys. made: [n][8 positions][8]
[[gnu::always_inline]] inline CodeLines turn_block(const std::int8_t* block, int n, std::int8_t* made) {
  for (int i = 0; i < n; ++i)
    for (int half = 0; half < 2; ++half) {
      const HalfLine turned = turn_around(block + i * 64, half);
      for (int j = 0; j < 2; ++j) store(made + i * 64 + half * 32 + j * 16, turned.rows[j]);
    }
  return {made, 64};
}

// What ways have in common whose factors are words, [n / 8][head][8]. Such a way is a Heads that has
//   multiply(lines, factors, n, soon, done)
// for scores and mixtures alike.
template <int Pairs, class Way>
struct WordHeads {
  using Factor = std::int16_t;
  static constexpr int kFactors = 1;

  static float round_query(int head, const float* from, int n, std::int16_t* to) {
    std::int16_t numbers[kMaxHeadDim];
    const float step = round_to_steps(from, n, numbers);
    for (int i = 0; i < n; i += 8) std::copy_n(numbers + i, 8, to + (i / 8 * 2 * Pairs + head) * 8);
    return step;
  }
  static float round_weights(int head, const float* from, std::int16_t* to) {
    std::uint8_t bytes[graph::kTile];
    const float step = round_to_bytes(from, bytes);
    for (int i = 0; i < graph::kTile; ++i) to[(i / 8 * 2 * Pairs + head) * 8 + i % 8] = bytes[i];
    return step;
  }

  template <class Soon, class Done>
  static void score(CodeLines lines, const std::int16_t* q, int n, Soon soon, Done done) {
    Way::multiply(lines, q, n, soon, done);
  }
  template <class Soon, class Done>
  static void score_turned(const std::int8_t* block, const std::int16_t* q, int n, Soon soon, Done done) {
    std::int8_t made[8 * kMaxHeadDim];
    Way::multiply(turn_block(block, n, made), q, n, soon, done);
  }
  // out: [head][8]
  template <class Soon>
  static void mix(CodeLines lines, const std::int16_t* p, Soon soon, const float* keep, const float* steps, float* out) {
    Way::multiply(lines, p, graph::kTile / 8, soon, add_to(out, keep, steps));
  }
  static int place(int head, int i) { return head * 8 + i; }
};

template <template <int> class Heads>
class CodedAttention {
 public:
  // One thread: a tile for all jobs before the next one.
  static void attend(std::span<const AttentionJob> jobs, const KvCacheCoded& cache) {
    constexpr int kJobs = AttentionJob::kMaxTogether;
    const int d = cache.head_dim, count = static_cast<int>(jobs.size());
    alignas(64) Factor all[kMaxHeadDim * kMostFactors], turned[kMaxHeadDim / 2 * kMostFactors], p[kJobs][kTile * kMostFactors];
    alignas(64) float scores[kJobs][kHeads][kTile], out[kHeads * kMaxHeadDim];
    float steps[kJobs][4][kHeads];
    Queries queries[kJobs];
    Weights weights[kJobs];
    AttentionState states[kJobs];
    const auto out_of = [&](int i) { return out + i * d * kHeads; };
    std::fill_n(out, count * d * kHeads, 0.0f);
    for (int i = 0; i < count; ++i) {
      queries[i] = {all + i * d * kMostFactors, turned + i * d / 2 * kMostFactors, steps[i][0], steps[i][1]};
      weights[i] = {p[i], steps[i][2], steps[i][3]};
      with_pairs(jobs[i], [&]<int Pairs>() { make_queries<Pairs>(jobs[i], cache, {0, 2 * Pairs}, queries[i]); });
    }
    const Range seen = tiles_of(jobs);
    for (int tile = seen.begin; tile < seen.end; ++tile) {
      score_tile(jobs, cache, tile, queries, scores);
      for (int i = 0; i < count; ++i) {
        const Tiles tiles{jobs[i], cache};
        if (!tiles.has(tile)) continue;
        AttentionState& state = states[i];
        with_pairs(jobs[i], [&]<int Pairs>() {
          weigh_all(scores[i], 2 * Pairs, tiles.begin(tile), tiles.end(tile), state.max, state.sum, weights[i].keep);
          for (int head = 0; head < 2 * Pairs; ++head) round_weights<Pairs>(tiles, tile, head, scores[i][head], weights[i]);
        });
      }
      mix_tile(jobs, cache, tile, weights, {0, d / 8}, out_of);
    }
    for (int i = 0; i < count; ++i)
      with_pairs(jobs[i], [&]<int Pairs>() { finish_heads<Pairs>(jobs[i], cache, out_of(i), states[i], {0, jobs[i].heads}); });
  }

  // All threads: heads are shared to be rotated, and back; tiles for scores and probabilities, elements for the mixtures.

  static void begin_share(const AttentionJob& job, const KvCacheCoded& cache, const AttentionState&, AttentionRoom& room, Part part) {
    with_pairs(job, [&]<int Pairs>() {
      make_queries<Pairs>(job, cache, share(2 * Pairs, part), queries_in(room));
    });
  }

  static void score_share(const AttentionJob& job, const KvCacheCoded& cache, Range chunk, AttentionState&, AttentionRoom& room,
                          Part part) {
    const Tiles tiles{job, cache};
    const Range mine = share(chunk.end - chunk.begin, part);
    const Queries queries = queries_in(room);
    for (int i = mine.begin; i < mine.end; ++i) {
      const int tile = chunk.begin + i;
      score_tile({&job, 1}, cache, tile, &queries, &room.scores[i]);
      for (int head = 0; head < pairs_of(job) * 2; ++head)
        room.most[i][head] = find_most(room.scores[i][head], tiles.begin(tile), tiles.end(tile));
    }
  }

  static void weigh_share(const AttentionJob& job, const KvCacheCoded& cache, Range chunk, AttentionState& state, AttentionRoom& room,
                          Part part) {
    const Tiles tiles{job, cache};
    const Range mine = share(chunk.end - chunk.begin, part);
    with_pairs(job, [&]<int Pairs>() {
      for (int head = 0; head < 2 * Pairs; ++head) {
        float max = state.max[head];
        for (int i = 0; i < mine.end; ++i) {
          const float before = std::exchange(max, std::max(max, room.most[i][head]));
          if (i < mine.begin) continue;
          room.keep[i][head] = numeric::exp_negative(before - max);
          room.sums[i][head] = weigh(room.scores[i][head], max);
          round_weights<Pairs>(tiles, chunk.begin + i, head, room.scores[i][head], weights_in(room, i));
        }
      }
    });
  }

  static void mix_share(const AttentionJob& job, const KvCacheCoded& cache, Range chunk, AttentionState& state, AttentionRoom& room,
                        Part part) {
    const Tiles tiles{job, cache};
    const Range mine = share(cache.head_dim / 8, part);
    const int heads = 2 * pairs_of(job), eighth = 8 * heads;  // floats
    if (chunk.begin == tiles.first()) std::fill(room.out + mine.begin * eighth, room.out + mine.end * eighth, 0.0f);
    for (int i = 0; i < chunk.end - chunk.begin; ++i) {
      const Weights weights = weights_in(room, i);
      mix_tile({&job, 1}, cache, chunk.begin + i, &weights, mine, [&](int) { return room.out; });
      for (int head = 0; head < heads; ++head) {
        state.max[head] = std::max(state.max[head], room.most[i][head]);
        state.sum[head] = numeric::fused(state.sum[head], room.keep[i][head], room.sums[i][head]);
      }
    }
  }

  static void finish_share(const AttentionJob& job, const KvCacheCoded& cache, const AttentionState& state, AttentionRoom& room,
                           Part part) {
    with_pairs(job, [&]<int Pairs>() { finish_heads<Pairs>(job, cache, room.out, state, share(job.heads, part)); });
  }

  static constexpr AttendCodedTogether kTogether = {begin_share, score_share, weigh_share, mix_share, finish_share};

 private:
  static constexpr int kTile = graph::kTile, kBlock = KvCacheCoded::kBlock, kHeads = AttentionJob::kMaxHeads;
  using Factor = typename Heads<1>::Factor;
  static constexpr int kMostFactors = kHeads * Heads<1>::kFactors;  // of an element, for all heads

  // The tiles of a job, and what of each may be seen.
  struct Tiles {
    const AttentionJob& job;
    const KvCacheCoded& cache;

    KvCacheCoded::Tile keys(int tile) const { return cache.keys(job.slot, job.kv_head, tile * kTile); }
    KvCacheCoded::Tile values(int tile) const { return cache.values(job.slot, job.kv_head, tile * kTile); }
    int first() const { return job.first / kTile; }
    int last() const { return job.last / kTile; }
    bool has(int tile) const { return tile >= first() && tile <= last(); }
    int begin(int tile) const { return std::max(job.first - tile * kTile, 0); }
    int end(int tile) const { return std::min(job.last + 1 - tile * kTile, kTile); }
    bool has_block(int tile, int block) const { return begin(tile) < (block + 1) * kBlock && end(tile) > block * kBlock; }
  };

  // Queries as they meet the codes: rotated, divided by the size; with one store one for the values, which has the norm of the keys
  // in it, and one for the components that turn. The last pair of an odd number of heads has one head twice.
  struct Queries {
    Factor *all, *turned;
    float *steps, *turned_steps;  // of the heads
  };
  template <int Pairs>
  static void make_queries(const AttentionJob& job, const KvCacheCoded& cache, Range heads, const Queries& to) {
    const int d = cache.head_dim, size = cache.stores.keys, pairs = size / 2;
    for (int head = heads.begin; head < heads.end; ++head) {
      const float* q = job.q[std::min(head, job.heads - 1)];
      float x[kMaxHeadDim];
      if (cache.stores.one) {
        std::copy_n(q, pairs, x);
        std::copy_n(q + d / 2, pairs, x + pairs);
        to.turned_steps[head] = rotate_and_round<Pairs>(head, x, size, to.turned);
        for (int i = 0; i < d; ++i) x[i] = i % (d / 2) < pairs ? 0.0f : cache.norm[i] * q[i];
      } else {
        std::copy_n(q, d, x);
      }
      to.steps[head] = rotate_and_round<Pairs>(head, x, d, to.all);
    }
  }
  template <int Pairs>
  static float rotate_and_round(int head, float* x, int n, Factor* to) {
    numeric::rotate(x, n);
    const float part = 1.0f / static_cast<float>(n);
    for (int i = 0; i < n; ++i) x[i] *= part;
    return Heads<Pairs>::round_query(head, x, n, to);
  }

  // Probabilities of a tile as they meet the codes, and what outputs so far are multiplied by.
  struct Weights {
    Factor* p;
    float *steps, *keep;  // of the heads
  };

  // Scores of what each job sees of a tile, block by block; as much of the next tile is asked for. queries, scores: of each job
  static void score_tile(std::span<const AttentionJob> jobs, const KvCacheCoded& cache, int tile, const Queries* queries,
                         float (*scores)[kHeads][kTile]) {
    const int d = cache.head_dim, size = cache.stores.keys;
    const Tiles any{jobs[0], cache};
    const int soon = std::min(tile + 1, tiles_of(jobs).end - 1);
    const KvCacheCoded::Tile keys = any.keys(tile), values = any.values(tile), next_keys = any.keys(soon), next_values = any.values(soon);
    const bool q4 = cache.stores.value_code == link::KvCode::q4;
    const int part_bytes = static_cast<int>(values.code_bytes) * 64 / d;
    for (int block = 0; block < kTile / kBlock; ++block) {
      const int at = block * kBlock;
      const Vec key_scale = Vec::load(keys.scales() + at), value_scale = Vec::load(values.scales() + at);
      const auto fetch_keys = [&](int i) __attribute__((always_inline)) { fetch(next_keys.codes() + at * size + i * 64); };
      const auto fetch_values = [&](int i) __attribute__((always_inline)) {
        fetch(next_values.codes() + (block * (d / 8) + i) * part_bytes);
      };
      const std::int8_t* codes = values.codes() + at * values.code_bytes;
      alignas(64) std::int8_t unpacked[kBlock * kMaxHeadDim + 64];
      if (cache.stores.one && q4) codes = unpack_block(codes, d, unpacked);
      for (std::size_t job = 0; job < jobs.size(); ++job) {
        if (!Tiles{jobs[job], cache}.has_block(tile, block)) continue;
        with_pairs(jobs[job], [&]<int Pairs>() {
          const Queries& query = queries[job];
          const auto put = [&](const float* steps, Vec scale) __attribute__((always_inline)) {
            return [=](int head, Vec sums) __attribute__((always_inline)) {
              (sums * Vec::broadcast(steps[head]) * scale).store(scores[job][head] + at);
            };
          };
          const CodeLines lines{keys.codes() + at * size, 64};
          if (!cache.stores.one) return Heads<Pairs>::score(lines, query.all, d / 8, fetch_keys, put(query.steps, key_scale));
          Heads<Pairs>::score_turned(codes, query.all, d / 8, fetch_values, put(query.steps, value_scale));
          const auto add = [&](int head, Vec sums) __attribute__((always_inline)) {
            float* to = scores[job][head] + at;
            (Vec::load(to) + sums * Vec::broadcast(query.turned_steps[head]) * key_scale).store(to);
          };
          Heads<Pairs>::score(lines, query.turned, size / 8, fetch_keys, add);
        });
      }
    }
  }

  // Probabilities times the scales of the values; what is invisible may hold anything, and has none.
  template <int Pairs>
  static void round_weights(const Tiles& tiles, int tile, int head, const float* p, const Weights& to) {
    float weights[kTile];
    const float* scales = tiles.values(tile).scales();
    const int begin = tiles.begin(tile), end = tiles.end(tile);
    for (int t = 0; t < kTile; ++t) weights[t] = p[t] * scales[t];
    std::fill(weights, weights + begin, 0.0f);
    std::fill(weights + end, weights + kTile, 0.0f);
    to.steps[head] = Heads<Pairs>::round_weights(head, weights, to.p);
  }

  // out = out * keep + p V for these eighths of the elements, for each job that sees the tile. out_of(job): [d / 8], as mix has it
  template <class OutOf>
  static void mix_tile(std::span<const AttentionJob> jobs, const KvCacheCoded& cache, int tile, const Weights* weights, Range eighths,
                       OutOf out_of) {
    const Tiles any{jobs[0], cache};
    const std::int8_t* codes = any.values(tile).codes();
    const std::int8_t* soon = any.values(std::min(tile + 1, tiles_of(jobs).end - 1)).codes();
    const bool q4 = cache.stores.value_code == link::KvCode::q4;
    const int part_bytes = q4 ? 32 : 64, block_bytes = kBlock * static_cast<int>(any.values(tile).code_bytes);
    // A few eighths for a job before the next one: what it takes to find the job's loop is paid once, and codes stay in the nearest cache.
    constexpr int kFew = 8, kUnpacked = 8 * kTile;
    for (int first = eighths.begin; first < eighths.end; first += kFew) {
      const int count = std::min(eighths.end - first, kFew);
      CodeLines lines{codes + first * 64, block_bytes};
      alignas(64) std::int8_t unpacked[kFew * kUnpacked];
      if (q4) {
        for (int i = 0; i < count; ++i)
          for (int pair = 0; pair < 4; ++pair)
            unpack_pair(codes, block_bytes, cache.head_dim, 4 * (first + i) + pair, unpacked + i * kUnpacked + pair * 16);
        lines = {unpacked, 64};
      }
      for (std::size_t job = 0; job < jobs.size(); ++job) {
        if (!Tiles{jobs[job], cache}.has(tile)) continue;
        with_pairs(jobs[job], [&]<int Pairs>() {
          float* out = out_of(static_cast<int>(job)) + first * 2 * Pairs * 8;
          for (int i = 0; i < count; ++i) {
            const auto fetch_values = [&](int octet) __attribute__((always_inline)) { fetch(soon + ((first + i) * 8 + octet) * part_bytes); };
            const CodeLines its_lines{lines.data + i * (q4 ? kUnpacked : 64), lines.stride};
            Heads<Pairs>::mix(its_lines, weights[job].p, fetch_values, weights[job].keep, weights[job].steps, out + i * 2 * Pairs * 8);
          }
        });
      }
    }
  }

  // The job's outputs: mixtures by the sums of their probabilities, rotated back.
  template <int Pairs>
  static void finish_heads(const AttentionJob& job, const KvCacheCoded& cache, const float* out, const AttentionState& state, Range heads) {
    for (int head = heads.begin; head < heads.end; ++head) {
      float* to = job.out[head];
      for (int i = 0; i < cache.head_dim; ++i) to[i] = out[i / 8 * 2 * Pairs * 8 + Heads<Pairs>::place(head, i % 8)] / state.sum[head];
      numeric::rotate_back(to, cache.head_dim);
    }
  }

  // Nibbles to codes.
  [[gnu::always_inline]] static Bytes codes_of(Bytes nibbles) {
#if defined(__aarch64__)
    return std::bit_cast<Bytes>(vqtbl1q_s8(vld1q_s8(numeric::kQ4Codes.data()), std::bit_cast<uint8x16_t>(nibbles)));
#elif defined(__SSSE3__)
    const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numeric::kQ4Codes.data()));
    return std::bit_cast<Bytes>(_mm_shuffle_epi8(table, std::bit_cast<__m128i>(nibbles)));
#else
    Bytes found{};
    for (int i = 0; i < 16; ++i) found[i] = static_cast<std::uint8_t>(numeric::kQ4Codes[nibbles[i]]);
    return found;
#endif
  }
  // Two elements of a tile of nibbles. to: [8 blocks], 64 bytes apart
  static void unpack_pair(const std::int8_t* codes, int block_bytes, int d, int pair, std::int8_t* to) {
    if (pair < d / 4) {
      for (int block = 0; block < kTile / kBlock; ++block)
        store(to + block * 64, codes_of(load(codes + block * block_bytes + pair * 16) & 15));
    } else {
      for (int block = 0; block < kTile / kBlock; ++block)
        store(to + block * 64, codes_of(load(codes + block * block_bytes + (pair - d / 4) * 16) >> 4));
    }
  }
  // A block of nibbles, in the order of q8.
  static const std::int8_t* unpack_block(const std::int8_t* block, int d, std::int8_t* to) {
    for (int i = 0; i < d * 4; i += 16) {
      const Bytes bytes = load(block + i);
      store(to + i, codes_of(bytes & 15));
      store(to + d * 4 + i, codes_of(bytes >> 4));
    }
    return to;
  }

  static void fetch(const std::int8_t* at) { __builtin_prefetch(at, 0, 2); }

  // What the room holds of queries, and of a tile's probabilities.
  static Queries queries_in(AttentionRoom& room) {
    static_assert(sizeof room.queries >= kMaxHeadDim * kMostFactors * sizeof(Factor));
    return {reinterpret_cast<Factor*>(room.queries), reinterpret_cast<Factor*>(room.turned_queries), room.query_steps, room.turned_steps};
  }
  static Weights weights_in(AttentionRoom& room, int tile) {
    static_assert(sizeof room.p[tile] >= kTile * kMostFactors * sizeof(Factor));
    return {reinterpret_cast<Factor*>(room.p[tile]), room.steps[tile], room.keep[tile]};
  }

  static int pairs_of(const AttentionJob& job) { return (job.heads + 1) / 2; }

  // Calls f.operator()<Pairs>() for the pairs of the job's heads.
  template <class F>
  static void with_pairs(const AttentionJob& job, F f) {
    switch (pairs_of(job)) {
      case 1: return f.template operator()<1>();
      case 2: return f.template operator()<2>();
      case 3: return f.template operator()<3>();
      default: return f.template operator()<4>();
    }
  }
};

}  // namespace
}  // namespace lapidary::cpu
