// The products of q8.hpp on x86, one description for every set of instructions. V, a class of static functions, is a vector and
// what its instructions do with it. Each file that includes this is compiled for instructions of its own, so nothing here may have
// a name that the linker sees.
//
// A vector has V::kLanes lanes of 16 bytes, each for one row of a step: the four rows take kVectors vectors, the rows v,
// v + kVectors... lie in vector v. A product of a vector and an activation row is a sum, and four sums after each other, the
// vectors of a row first, are gathered in one vector: [lane][sum].
#pragma once

#include <immintrin.h>

#include <algorithm>

#include "cpu/q8_codes_x86.hpp"

namespace lapidary::cpu {
namespace {

template <class V>
constexpr int kVectors = kStreams / V::kLanes;

// Sums of so many activation rows, the last four filled up.
template <class V>
constexpr int filled(int rows) {
  return (rows * kVectors<V> + 3) / 4 * 4;
}

// ---- activations

template <class V>
struct EvenOdd {
  typename V::Floats even, odd;
};

// Sizes of numbers are ordered like their bits, and what is not a number is above all of them.
LAPIDARY_INLINE float largest_of(__m128i sizes) {
  sizes = _mm_max_epi32(sizes, _mm_shuffle_epi32(sizes, 0x4e));
  sizes = _mm_max_epi32(sizes, _mm_shuffle_epi32(sizes, 0xb1));
  return _mm_cvtss_f32(_mm_castsi128_ps(sizes));
}

LAPIDARY_INLINE std::int32_t total_of(__m128i x) {
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

struct Factors {
  float a, sum;
};

// Whether the sum is times a already. In groups of 32 or 16 there may be codes of floats, whose dots want the sum itself.
template <bool Paired, int Group>
constexpr bool kSumTimesA = Paired || Group > 32;

// A group of one row. q: [Group], of pairs the odd elements first
template <class V, bool Paired, int Group>
LAPIDARY_INLINE Factors quantise_group(const float* x, std::int8_t* q) {
  using Ints = typename V::Ints;
  using Floats = typename V::Floats;
  constexpr int kNumbers = 4 * V::kLanes;  // of a vector
  const auto inverse = [](float most) { return V::all(most >= kLeastQ8 ? 127.0f / most : 0.0f); };
  Ints sizes = V::zeros(), sums = V::zeros();
  float most, a;
  if constexpr (!Paired) {
    for (int i = 0; i < Group; i += kNumbers) sizes = V::max(sizes, V::size_bits(V::load(x + i)));
    most = V::largest(sizes);
    const Floats r = inverse(most);
    for (int i = 0; i < Group; i += kNumbers) {
      const Ints u = V::rounded(V::load(x + i) * r);
      V::store_bytes(q + i, u);
      sums = V::add(sums, u);
    }
    a = most / 127.0f;
  } else {
    const Floats minus = V::all(-0.0625f);
    for (int i = 0; i < Group; i += 2 * kNumbers) {
      const auto [even, odd] = V::load_pairs(x + i);
      sizes = V::max(sizes, V::size_bits(odd));
      sizes = V::max(sizes, V::size_bits(V::fma(odd, minus, even)));
    }
    most = V::largest(sizes);
    const Floats r = inverse(most);
    for (int i = 0; i < Group; i += 2 * kNumbers) {
      const auto [even, odd] = V::load_pairs(x + i);
      const Ints u = V::rounded(odd * r);
      const Ints v = V::rounded(V::fma(V::to_floats(u), minus, even * r));
      V::store_bytes(q + i / 2, u);
      V::store_bytes(q + Group / 2 + i / 2, v);
      sums = V::add(sums, V::add(u, V::template shift_left<4>(V::add(u, v))));  // 17 u + 16 v
    }
    a = most / 127.0f * 0.0625f;
  }
  const float sum = static_cast<float>(V::total(sums));
  return {a, kSumTimesA<Paired, Group> ? a * sum : sum};
}

// ---- weights

// 16 bytes of each row of vector v.
template <class V>
LAPIDARY_INLINE auto load_rows(const Streams& streams, int v, int at) {
  return V::of_rows(v, [&](int row) __attribute__((always_inline)) { return load(streams.at[row] + at); });
}

// A group of the rows of a step for instructions that sum products of bytes in pairs of 16 bits, too few for whole bytes. So a
// byte is taken apart, lo + 16 hi: a dot is the sum of lo u and 16 times the sum of hi u, for 4 bits of hi u + lo v.
template <class V, int Bits, int Group>
struct HalfBytes {
  static constexpr int kBytes = Group * Bits / 8, kChunks = kBytes / 16;
  typename V::Ints low[kVectors<V>][kChunks], high[kVectors<V>][kChunks];

  LAPIDARY_INLINE HalfBytes(const Streams& streams, int g) {
    const auto fifteen = V::all_bytes(15);
    for (int v = 0; v < kVectors<V>; ++v)
      for (int i = 0; i < kChunks; ++i) {
        const auto bytes = load_rows<V>(streams, v, g * kBytes + 16 * i);
        low[v][i] = bytes & fifteen;
        high[v][i] = V::template words_right<4>(bytes) & fifteen;
      }
  }

  // With one activation row, q: [Group]. At most 8 products of 2 * 15 * 127 meet in 16 bits.
  LAPIDARY_INLINE auto dots(int v, const std::int8_t* q) const {
    auto ones = V::zeros(), sixteens = ones;
    for (int i = 0; i < kChunks; ++i) {
      const auto u = V::in_all_lanes(load(q + 16 * i));
      ones = V::add_words(ones, V::pairs(low[v][i], u));
      sixteens = V::add_words(sixteens, V::pairs(high[v][i], u));
      if constexpr (Bits == 4)
        sixteens = V::add_words(sixteens, V::pairs(low[v][i], V::in_all_lanes(load(q + Group / 2 + 16 * i))));
    }
    return V::add(V::pairs_of_words(ones, 1), V::pairs_of_words(sixteens, 16));
  }
};

// The same for instructions with dot products of bytes.
template <class V, int Bits, int Group>
struct WholeBytes {
  static constexpr int kBytes = Group * Bits / 8, kChunks = kBytes / 16;
  typename V::Ints bytes[kVectors<V>][kChunks], low[kVectors<V>][kChunks];  // 16 lo, of 4 bits

  LAPIDARY_INLINE WholeBytes(const Streams& streams, int g) {
    for (int v = 0; v < kVectors<V>; ++v)
      for (int i = 0; i < kChunks; ++i) {
        bytes[v][i] = load_rows<V>(streams, v, g * kBytes + 16 * i);
        if constexpr (Bits == 4) low[v][i] = V::template shift_left<4>(bytes[v][i]) & V::all_bytes(-16);
      }
  }

  // With one activation row, q: [Group]
  LAPIDARY_INLINE auto dots(int v, const std::int8_t* q) const {
    auto sums = V::zeros();
    for (int i = 0; i < kChunks; ++i) {
      sums = V::add_dots(sums, bytes[v][i], V::in_all_lanes(load(q + 16 * i)));
      if constexpr (Bits == 4) sums = V::add_dots(sums, low[v][i], V::in_all_lanes(load(q + Group / 2 + 16 * i)));
    }
    return sums;
  }
};

// The same of codes of fewer than 8 bits.
template <class V, Codes codes, int Group>
struct CodeBytes {
  static constexpr int kBytes = Group * bits_of(codes) / 8, kChunks = Group / 16;
  typename V::Ints c[kVectors<V>][kChunks];

  LAPIDARY_INLINE CodeBytes(const Streams& streams, int g) {
    for (int v = 0; v < kVectors<V>; ++v) load_codes<V, codes, Group>(streams, v, g * kBytes, c[v]);
  }

  // With one activation row, q: [Group]
  LAPIDARY_INLINE auto dots(int v, const std::int8_t* q) const {
    auto sums = V::zeros();
    for (int i = 0; i < kChunks; ++i) sums = add(sums, c[v][i], V::in_all_lanes(load(q + 16 * i)));
    return sums;
  }

 private:
  // Two products of at most 63 * 127 have room in 16 bits.
  LAPIDARY_INLINE static auto add(typename V::Ints sums, typename V::Ints weights, typename V::Ints q) {
    if constexpr (requires { V::add_dots(sums, weights, q); }) return V::add_dots(sums, weights, q);
    else return V::add(sums, V::pairs_of_words(V::pairs(weights, q), 1));
  }
};

// ---- products

constexpr int kAheadBytes = 1024;  // fetched ahead; past the end of a row its stream goes on with the next one

LAPIDARY_INLINE void fetch(const Streams& streams, int begin, int bytes) {
  for (const std::uint8_t* stream : streams.at)
    for (int line = begin; line < begin + bytes; line += 64) _mm_prefetch(stream + line + kAheadBytes, _MM_HINT_T0);
}

template <class V, template <class, int, int> class Weights>
struct ProductsX86 {
  // q: [groups, rows, Group]; factors: [groups, 2, filled] = the factors of the row that a sum belongs to
  template <bool Paired, int Group>
  static void quantise(const float* const* x, const Q8Tile& tile, Range groups) {
    const int fill = filled<V>(tile.rows);
    for (int r = 0; r < tile.rows; ++r)
      for (int g = groups.begin; g < groups.end; ++g) {
        const std::size_t at = static_cast<std::size_t>(g) * tile.rows + r;
        const Factors factors = quantise_group<V, Paired, Group>(x[r] + g * Group, tile.q + at * Group);
        float* to = tile.factors + static_cast<std::size_t>(g) * 2 * fill;
        for (int i = r * kVectors<V>; i < (r + 1 < tile.rows ? (r + 1) * kVectors<V> : fill); ++i) {
          to[i] = factors.a;
          to[fill + i] = factors.sum;
        }
      }
  }

  template <int Bits, int Group, int Rows>
  static void multiply(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    multiply_by<Bits == 4 ? Codes::u4 : Codes::u8, Weights<V, Bits, Group>, Group, Rows>(w, tile, y, steps);
  }

  template <Codes codes, int Group>
  static void multiply_codes(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    with_rows(tile.rows, [&]<int Rows>() {
      multiply_by<codes, CodeBytes<V, codes, Group>, Group, Rows>(w, tile, y, steps);
    });
  }

 private:
  // Of a group: sums of products by activation row and vector, and the scales and biases that they wait for.
  template <int Count>
  struct Dots {
    typename V::Ints of[Count], words;
  };

  // A function each: compilers take far longer for one that holds dozens of them.
  template <Codes codes, class OfGroup, int Group, int Rows>
  __attribute__((noinline)) static void multiply_by(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    constexpr int kSums = Rows * kVectors<V>, kFill = filled<V>(Rows);
    const int groups = w.cols / Group;
    for (int step = steps.begin; step < steps.end; ++step) {
      const Streams streams(w, step);
      const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
      const std::int8_t* q = tile.q;
      const float* factors = tile.factors;
      typename V::Floats sums[kFill / 4];
      for (auto& sum : sums) sum = V::all(0.0f);

      // The sums of a group are brought together behind the products of the next one, when they are there: a core holds some hundred
      // operations that wait, and those of two groups are no more.
      Dots<kFill> dots;
      const auto begin_group = [&](int g) __attribute__((always_inline)) {
        fetch(streams, g * OfGroup::kBytes, OfGroup::kBytes);
        const OfGroup weights(streams, g);
        _mm_prefetch(reinterpret_cast<const char*>(scales + g * kStreams) + kAheadBytes, _MM_HINT_T0);
        dots.words = V::by_stream(load(scales + g * kStreams));
#pragma GCC unroll 32
        for (int i = 0; i < kFill; ++i) dots.of[i] = i < kSums ? weights.dots(i % kVectors<V>, q + i / kVectors<V> * Group) : V::zeros();
        q += Rows * Group;
      };
      const auto end_group = [&](const Dots<kFill>& d) __attribute__((always_inline)) {
        const auto s = V::as_floats(d.words & V::all_ints(-0x10000)), b = V::as_floats(V::template shift_left<16>(d.words));
#pragma GCC unroll 8
        for (int i = 0; i < kFill; i += 4) {
          const auto all = V::pair_sums(V::pair_sums(d.of[i], d.of[i + 1]), V::pair_sums(d.of[i + 2], d.of[i + 3]));
          const auto a = V::in_all_lanes(_mm_loadu_ps(factors + i)), row_sum = V::in_all_lanes(_mm_loadu_ps(factors + kFill + i));
          auto& sum = sums[i / 4];
          auto dot = V::to_floats(all);
          if constexpr (codes == Codes::e2m1) dot -= V::all(kMoreThanE2m1) * row_sum;  // small integers: exact
          sum = V::fma(dot, s * a, sum);
          if constexpr (has_biases(codes)) sum = V::fma(b, kSumTimesA<codes == Codes::u4, Group> ? row_sum : a * row_sum, sum);
        }
        factors += 2 * kFill;
      };
      begin_group(0);
      for (int g = 1; g < groups; ++g) {
        const Dots<kFill> before = dots;
        begin_group(g);
        end_group(before);
      }
      end_group(dots);

      float lanes[kFill / 4][V::kLanes][4];
      for (int i = 0; i < kFill / 4; ++i) V::store(lanes[i][0], sums[i]);
      for (int r = 0; r < Rows; ++r) {
        float by_stream[kStreams];
        for (int i = 0; i < kStreams; ++i) {
          const int sum = r * kVectors<V> + i % kVectors<V>;
          by_stream[i] = lanes[sum / 4][i / kVectors<V>][sum % 4];
        }
        streams.store(by_stream, w.rows, y[r]);
      }
    }
  }
};

}  // namespace
}  // namespace lapidary::cpu
