// What the products of q8.hpp share on x86: quantised rows and the rows of a step. Each file that includes this is compiled for
// instructions of its own, so nothing here may have a name that the linker sees.
#pragma once

#include <immintrin.h>

#include <algorithm>

#include "cpu/q8.hpp"
#include "cpu/q8_format.hpp"

namespace lapidary::cpu {
namespace {

// ---- activations

LAPIDARY_INLINE __m128i load(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }

// Sizes of numbers are ordered like their bits, and what is not a number is above all of them.
LAPIDARY_INLINE __m256i size_bits(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

// To the nearest, ties to even; what is not a number becomes 0.
LAPIDARY_INLINE __m256i rounded(__m256 x) {
  return _mm256_and_si256(_mm256_cvtps_epi32(x), _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q)));
}

LAPIDARY_INLINE void store_bytes(std::int8_t* to, __m256i x) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi16(words, words));
}

LAPIDARY_INLINE float largest(__m256i sizes) {
  __m128i most = _mm_max_epi32(_mm256_castsi256_si128(sizes), _mm256_extracti128_si256(sizes, 1));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
  return _mm_cvtss_f32(_mm_castsi128_ps(most));
}

LAPIDARY_INLINE std::int32_t total(__m256i x) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

struct EvenOdd {
  __m256 even, odd;
};

// x: [16]
LAPIDARY_INLINE EvenOdd load_pairs(const float* x) {
  const __m256 a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(x + 8);
  const auto ordered = [](__m256 y) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(y), 0xd8)); };
  return {ordered(_mm256_shuffle_ps(a, b, 0x88)), ordered(_mm256_shuffle_ps(a, b, 0xdd))};
}

struct Factors {
  float a = 0.0f, a_sum = 0.0f;
};

// A group of one row. q: [Group], of pairs the odd elements first
template <bool Paired, int Group>
LAPIDARY_INLINE Factors quantise_group(const float* x, std::int8_t* q) {
  const auto inverse = [](float most) { return _mm256_set1_ps(most >= kLeastQ8 ? 127.0f / most : 0.0f); };
  __m256i sizes = _mm256_setzero_si256(), sums = sizes;
  float most, a;
  if constexpr (!Paired) {
    for (int i = 0; i < Group; i += 8) sizes = _mm256_max_epi32(sizes, size_bits(_mm256_loadu_ps(x + i)));
    most = largest(sizes);
    const __m256 r = inverse(most);
    for (int i = 0; i < Group; i += 8) {
      const __m256i u = rounded(_mm256_mul_ps(_mm256_loadu_ps(x + i), r));
      store_bytes(q + i, u);
      sums = _mm256_add_epi32(sums, u);
    }
    a = most / 127.0f;
  } else {
    const __m256 minus = _mm256_set1_ps(-0.0625f);
    for (int i = 0; i < Group; i += 16) {
      const auto [even, odd] = load_pairs(x + i);
      sizes = _mm256_max_epi32(sizes, size_bits(odd));
      sizes = _mm256_max_epi32(sizes, size_bits(_mm256_fmadd_ps(odd, minus, even)));
    }
    most = largest(sizes);
    const __m256 r = inverse(most);
    for (int i = 0; i < Group; i += 16) {
      const auto [even, odd] = load_pairs(x + i);
      const __m256i u = rounded(_mm256_mul_ps(odd, r));
      const __m256i v = rounded(_mm256_fmadd_ps(_mm256_cvtepi32_ps(u), minus, _mm256_mul_ps(even, r)));
      store_bytes(q + i / 2, u);
      store_bytes(q + Group / 2 + i / 2, v);
      sums = _mm256_add_epi32(sums, _mm256_add_epi32(u, _mm256_slli_epi32(_mm256_add_epi32(u, v), 4)));  // 17 u + 16 v
    }
    a = most / 127.0f * 0.0625f;
  }
  return {a, a * static_cast<float>(total(sums))};
}

// Rows whose factors lie together: fours, the last one filled up with zeros.
constexpr int filled(int rows) { return (rows + 3) / 4 * 4; }

struct QuantisingX86 {
  // q: [groups, rows, Group]; factors: [groups, 2, filled(rows)] = a, a * sum
  template <bool Paired, int Group>
  static void quantise(const float* const* x, const Q8Tile& tile, Range groups) {
    const int fill = filled(tile.rows);
    for (int r = 0; r < fill; ++r)
      for (int g = groups.begin; g < groups.end; ++g) {
        const std::size_t at = static_cast<std::size_t>(g) * tile.rows + r;
        Factors factors;
        if (r < tile.rows) factors = quantise_group<Paired, Group>(x[r] + g * Group, tile.q + at * Group);
        float* to = tile.factors + static_cast<std::size_t>(g) * 2 * fill + r;
        to[0] = factors.a;
        to[fill] = factors.a_sum;
      }
  }
};

// ---- products

constexpr int kAheadBytes = 1024;  // fetched ahead; past the end of a row its stream goes on with the next one

LAPIDARY_INLINE void fetch(const Streams& streams, int begin, int bytes) {
  for (const std::uint8_t* stream : streams.at)
    for (int line = begin; line < begin + bytes; line += 64) _mm_prefetch(stream + line + kAheadBytes, _MM_HINT_T0);
}

// 16 bytes of two streams.
LAPIDARY_INLINE __m256i load_two(const Streams& streams, int first, int second, int at) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load(streams.at[first] + at)), load(streams.at[second] + at), 1);
}

}  // namespace
}  // namespace lapidary::cpu
