// How attention on codes walks tiles of positions, by one thread or by all together, whatever multiplies.
//
// A way to multiply is a template Heads<Pairs>: pairs of heads, all sums of a head its own. It stands in a namespace without a
// name, so that what is made from it here belongs to its file alone. It has
//   Factor, kFactors                 what queries and probabilities become, and how many of them an element does
//   round(head, from, n, to)         those of one head; returns the step that they are multiples of. from: [n]
//   multiply(lines, factors, first, last, soon, done)
//                                    codes . factors over columns 8 * first to 8 * last of 8 rows: calls soon(i) when it reads columns
//                                    from 8 i on, to ask for what comes soon, and done(head, sums) in the end
// Rows and columns are positions and elements for scores, elements and positions for mixtures.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
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

// Codes of 8 rows: rows 2 j and 2 j + 1, columns 8 i to 8 i + 7, lie at data + j * pair_stride + i * stride, [2][8].
struct CodeLines {
  const std::int8_t* data;
  int pair_stride, stride;  // bytes
};

// x as whole numbers of at most 13 bits and a sign; returns the step that they are multiples of. What is not a number is in the step.
[[gnu::always_inline]] inline float round_to_steps(const float* x, int n, std::int16_t* to) {
  constexpr float kMost = 8191.0f;  // sums over 2048 codes have 31 bits
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to the nearest integer, ties to even
  std::uint32_t bits = 0;
  for (int i = 0; i < n; ++i) bits = std::max(bits, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
  const float most = std::bit_cast<float>(bits);
  if (!(most > 0x1p-100f && most < std::numeric_limits<float>::infinity())) {
    std::fill_n(to, n, std::int16_t{0});
    return most <= 0x1p-100f ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float factor = kMost / most;
  for (int i = 0; i < n; ++i)
    to[i] = static_cast<std::int16_t>(std::bit_cast<std::int32_t>(x[i] * factor + kRound) - std::bit_cast<std::int32_t>(kRound));
  return most / kMost;
}

template <template <int> class Heads>
class CodedAttention {
 public:
  static void attend(const AttentionJob& job, const KvCacheCoded& cache) {
    with_pairs(job, [&]<int Pairs>() {
      const int d = cache.head_dim;
      const Queries<Pairs> queries(job, cache);
      alignas(64) Factor<Pairs> p[kTile * kFactors<Pairs>];
      alignas(64) float scores[2 * Pairs][kTile], out[2 * Pairs * kMaxHeadDim];
      float keep[2 * Pairs], steps[2 * Pairs];
      AttentionState state;
      std::fill_n(out, 2 * Pairs * d, 0.0f);
      const Tiles tiles{job, cache};
      for (int tile = tiles.first(); tile <= tiles.last(); ++tile) {
        score_tile(queries, tiles, tile, std::min(tile + 1, tiles.last()), scores);
        for (int head = 0; head < 2 * Pairs; ++head) {
          float& max = state.max[head];
          const float before = std::exchange(max, std::max(max, find_most(scores[head], tiles.begin(tile), tiles.end(tile))));
          keep[head] = numeric::exp(before - max);
          state.sum[head] = numeric::fused(state.sum[head], keep[head], weigh(scores[head], max));
          steps[head] = round_weights<Pairs>(tiles, tile, head, scores[head], p);
        }
        mix_tile<Pairs>(tiles, tile, p, keep, steps, {0, d / 8}, out);
      }
      finish_heads<Pairs>(job, cache, out, state, {0, job.heads});
    });
  }

  // All threads: tiles are shared for scores and probabilities, elements for the mixtures, heads to be rotated back.

  static void score_share(const AttentionJob& job, const KvCacheCoded& cache, Range chunk, AttentionState&, AttentionRoom& room,
                          Part part) {
    const Tiles tiles{job, cache};
    const Range mine = share(chunk.end - chunk.begin, part);
    with_pairs(job, [&]<int Pairs>() {
      const Queries<Pairs> queries(job, cache);
      for (int i = mine.begin; i < mine.end; ++i) {
        const int tile = chunk.begin + i;
        score_tile(queries, tiles, tile, std::min(tile + 1, tiles.last()), room.scores[i]);
        for (int head = 0; head < 2 * Pairs; ++head)
          room.most[i][head] = find_most(room.scores[i][head], tiles.begin(tile), tiles.end(tile));
      }
    });
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
          room.keep[i][head] = numeric::exp(before - max);
          room.sums[i][head] = weigh(room.scores[i][head], max);
          room.steps[i][head] = round_weights<Pairs>(tiles, chunk.begin + i, head, room.scores[i][head], factors<Pairs>(room, i));
        }
      }
    });
  }

  static void mix_share(const AttentionJob& job, const KvCacheCoded& cache, Range chunk, AttentionState& state, AttentionRoom& room,
                        Part part) {
    const Tiles tiles{job, cache};
    const Range mine = share(cache.head_dim / 8, part);
    with_pairs(job, [&]<int Pairs>() {
      constexpr int kEighth = 8 * 2 * Pairs;  // floats
      if (chunk.begin == tiles.first()) std::fill(room.out + mine.begin * kEighth, room.out + mine.end * kEighth, 0.0f);
      for (int i = 0; i < chunk.end - chunk.begin; ++i) {
        mix_tile<Pairs>(tiles, chunk.begin + i, factors<Pairs>(room, i), room.keep[i], room.steps[i], mine, room.out);
        for (int head = 0; head < 2 * Pairs; ++head) {
          state.max[head] = std::max(state.max[head], room.most[i][head]);
          state.sum[head] = numeric::fused(state.sum[head], room.keep[i][head], room.sums[i][head]);
        }
      }
    });
  }

  static void finish_share(const AttentionJob& job, const KvCacheCoded& cache, const AttentionState& state, const AttentionRoom& room,
                           Part part) {
    with_pairs(job, [&]<int Pairs>() { finish_heads<Pairs>(job, cache, room.out, state, share(job.heads, part)); });
  }

  static constexpr AttendCodedTogether kTogether = {score_share, weigh_share, mix_share, finish_share};

 private:
  static constexpr int kTile = graph::kTile, kBlock = KvCacheCoded::kBlock;
  using Bytes = std::uint8_t __attribute__((vector_size(16)));

  template <int Pairs>
  using Factor = typename Heads<Pairs>::Factor;
  template <int Pairs>
  static constexpr int kFactors = 2 * Pairs * Heads<Pairs>::kFactors;  // of an element, for all heads

  // The tiles of a job, and what of each may be seen.
  struct Tiles {
    const AttentionJob& job;
    const KvCacheCoded& cache;

    KvCacheCoded::Tile keys(int tile) const { return cache.keys(job.slot, job.kv_head, tile * kTile); }
    KvCacheCoded::Tile values(int tile) const { return cache.values(job.slot, job.kv_head, tile * kTile); }
    int first() const { return job.first / kTile; }
    int last() const { return job.last / kTile; }
    int begin(int tile) const { return std::max(job.first - tile * kTile, 0); }
    int end(int tile) const { return std::min(job.last + 1 - tile * kTile, kTile); }
  };

  // Queries as they meet the codes: rotated, divided by the size; with one store one for the values, which has the norm of the keys
  // in it, and one for the components that turn. The last pair of an odd number of heads has one head twice.
  template <int Pairs>
  struct Queries {
    alignas(64) Factor<Pairs> all[kMaxHeadDim * kFactors<Pairs>], turned[kMaxHeadDim / 2 * kFactors<Pairs>];
    float step[2 * Pairs], turned_step[2 * Pairs];

    Queries(const AttentionJob& job, const KvCacheCoded& cache) {
      const int d = cache.head_dim, size = cache.stores.keys, pairs = size / 2;
      for (int head = 0; head < 2 * Pairs; ++head) {
        const float* q = job.q[std::min(head, job.heads - 1)];
        float x[kMaxHeadDim];
        if (cache.stores.one) {
          std::copy_n(q, pairs, x);
          std::copy_n(q + d / 2, pairs, x + pairs);
          turned_step[head] = rotate_and_round(head, x, size, turned);
          for (int i = 0; i < d; ++i) x[i] = i % (d / 2) < pairs ? 0.0f : cache.norm[i] * q[i];
        } else {
          std::copy_n(q, d, x);
        }
        step[head] = rotate_and_round(head, x, d, all);
      }
    }

   private:
    static float rotate_and_round(int head, float* x, int n, Factor<Pairs>* to) {
      numeric::rotate(x, n);
      const float part = 1.0f / static_cast<float>(n);
      for (int i = 0; i < n; ++i) x[i] *= part;
      return Heads<Pairs>::round(head, x, n, to);
    }
  };

  // Scores of the visible positions of a tile, block by block; as much of the tile `soon` is asked for.
  template <int Pairs>
  static void score_tile(const Queries<Pairs>& queries, const Tiles& tiles, int tile, int soon, float (*scores)[kTile]) {
    const KvCacheCoded& cache = tiles.cache;
    const KvCacheCoded::Tile keys = tiles.keys(tile), values = tiles.values(tile);
    const KvCacheCoded::Tile next_keys = tiles.keys(soon), next_values = tiles.values(soon);
    const int d = cache.head_dim, size = cache.stores.keys;
    for (int block = tiles.begin(tile) / kBlock; block * kBlock < tiles.end(tile); ++block) {
      const int at = block * kBlock;
      const auto fetch_keys = [&](int i) __attribute__((always_inline)) { fetch(next_keys.codes() + at * size + i * 64); };
      const Vec key_scale = Vec::load(keys.scales() + at);
      if (!cache.stores.one) {
        const auto put = [&](int head, Vec sums) __attribute__((always_inline)) {
          (sums * Vec::broadcast(queries.step[head]) * key_scale).store(scores[head] + at);
        };
        Heads<Pairs>::multiply({keys.codes() + at * d, 16, 64}, queries.all, 0, d / 8, fetch_keys, put);
        continue;
      }
      alignas(64) std::int8_t made[kBlock * kMaxHeadDim];
      turn_around(values.codes(), cache.stores.value_code, d, block, made);
      const int part_bytes = static_cast<int>(values.code_bytes) * 64 / d;
      const auto fetch_values = [&](int i) __attribute__((always_inline)) {
        fetch(next_values.codes() + (block * (d / 8) + i) * part_bytes);
      };
      const Vec value_scale = Vec::load(values.scales() + at);
      const auto put = [&](int head, Vec sums) __attribute__((always_inline)) {
        (sums * Vec::broadcast(queries.step[head]) * value_scale).store(scores[head] + at);
      };
      const auto add = [&](int head, Vec sums) __attribute__((always_inline)) {
        (Vec::load(scores[head] + at) + sums * Vec::broadcast(queries.turned_step[head]) * key_scale).store(scores[head] + at);
      };
      Heads<Pairs>::multiply({made, 16, 64}, queries.all, 0, d / 8, fetch_values, put);
      Heads<Pairs>::multiply({keys.codes() + at * size, 16, 64}, queries.turned, 0, size / 8, fetch_keys, add);
    }
  }

  // Probabilities times the scales of the values; what is invisible may hold anything, and has none.
  template <int Pairs>
  static float round_weights(const Tiles& tiles, int tile, int head, const float* p, Factor<Pairs>* to) {
    float weights[kTile];
    const float* scales = tiles.values(tile).scales();
    const int begin = tiles.begin(tile), end = tiles.end(tile);
    for (int t = 0; t < kTile; ++t) weights[t] = p[t] * scales[t];
    std::fill(weights, weights + begin, 0.0f);
    std::fill(weights + end, weights + kTile, 0.0f);
    return Heads<Pairs>::round(head, weights, kTile, to);
  }

  // out = out * keep + p V for these eighths of the elements; out: [d / 8][head][8]
  template <int Pairs>
  static void mix_tile(const Tiles& tiles, int tile, const Factor<Pairs>* p, const float* keep, const float* steps, Range eighths,
                       float* out) {
    const KvCacheCoded& cache = tiles.cache;
    const std::int8_t* codes = tiles.values(tile).codes();
    const std::int8_t* soon = tiles.values(std::min(tile + 1, tiles.last())).codes();
    const bool q4 = cache.stores.value_code == link::KvCode::q4;
    const int part_bytes = q4 ? 32 : 64;
    const Range octets{tiles.begin(tile) / 8, (tiles.end(tile) + 7) / 8};
    for (int i = eighths.begin; i < eighths.end; ++i) {
      const auto add = [&](int head, Vec sums) __attribute__((always_inline)) {
        float* to = out + (i * 2 * Pairs + head) * 8;
        fused(Vec::load(to), Vec::broadcast(keep[head]), sums * Vec::broadcast(steps[head])).store(to);
      };
      const std::int8_t* lines = codes + i * 8 * kTile;
      alignas(64) std::int8_t unpacked[8 * kTile];
      if (q4) {
        for (int pair = 0; pair < 4; ++pair)
          for (int octet = 0; octet < kTile / 8; ++octet)
            store(unpacked + pair * 2 * kTile + octet * 16, load_q4(codes, cache.head_dim, 4 * i + pair, octet));
        lines = unpacked;
      }
      const auto fetch_values = [&](int octet) __attribute__((always_inline)) { fetch(soon + (i * 8 + octet) * part_bytes); };
      Heads<Pairs>::multiply({lines, 2 * kTile, 16}, p, octets.begin, octets.end, fetch_values, add);
    }
  }

  // The job's outputs: mixtures by the sums of their probabilities, rotated back.
  template <int Pairs>
  static void finish_heads(const AttentionJob& job, const KvCacheCoded& cache, const float* out, const AttentionState& state, Range heads) {
    for (int head = heads.begin; head < heads.end; ++head) {
      float* to = job.out[head];
      for (int i = 0; i < cache.head_dim; ++i) to[i] = out[(i / 8 * 2 * Pairs + head) * 8 + i % 8] / state.sum[head];
      numeric::rotate_back(to, cache.head_dim);
    }
  }

  [[gnu::always_inline]] static Bytes load(const std::int8_t* at) {
    Bytes bytes;
    std::memcpy(&bytes, at, sizeof bytes);
    return bytes;
  }
  [[gnu::always_inline]] static void store(std::int8_t* at, Bytes bytes) { std::memcpy(at, &bytes, sizeof bytes); }

  // Two elements of 8 positions of a tile of nibbles, as codes.
  [[gnu::always_inline]] static Bytes load_q4(const std::int8_t* codes, int d, int pair, int octet) {
    const bool high = pair >= d / 4;
    const Bytes bytes = load(codes + (high ? pair - d / 4 : pair) * 2 * kTile + octet * 16);
    const Bytes nibbles = (high ? bytes >> 4 : bytes) & 15;
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

  // Values of the 8 positions of a block, in the order of keys. to: [d / 8][8 positions][8]
  static void turn_around(const std::int8_t* codes, link::KvCode code, int d, int block, std::int8_t* to) {
    const bool q4 = code == link::KvCode::q4;
    for (int i = 0; i < d / 8; ++i, to += 64) {
      Bytes rows[4];  // of two elements
      for (int j = 0; j < 4; ++j)
        rows[j] = q4 ? load_q4(codes, d, 4 * i + j, block) : load(codes + (4 * i + j) * 2 * kTile + block * 16);
      const Bytes a = zip_low(rows[0], rows[2]), b = zip_high(rows[0], rows[2]);  // elements 0 4, 1 5
      const Bytes c = zip_low(rows[1], rows[3]), e = zip_high(rows[1], rows[3]);  // 2 6, 3 7
      const Bytes even_low = zip_low(a, c), even_high = zip_high(a, c);           // 0 2 4 6 of positions 0 to 3, 4 to 7
      const Bytes odd_low = zip_low(b, e), odd_high = zip_high(b, e);
      store(to, zip_low(even_low, odd_low));
      store(to + 16, zip_high(even_low, odd_low));
      store(to + 32, zip_low(even_high, odd_high));
      store(to + 48, zip_high(even_high, odd_high));
    }
  }
  static Bytes zip_low(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static Bytes zip_high(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }

  static void fetch(const std::int8_t* at) { __builtin_prefetch(at, 0, 2); }

  // The place of a tile's probabilities.
  template <int Pairs>
  static Factor<Pairs>* factors(AttentionRoom& room, int tile) {
    static_assert(sizeof room.p[tile] >= kTile * kFactors<Pairs> * sizeof(Factor<Pairs>));
    return reinterpret_cast<Factor<Pairs>*>(room.p[tile]);
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
};

}  // namespace lapidary::cpu
