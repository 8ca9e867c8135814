// Vectors of 256 bits for q8_x86.hpp: AVX2 and FMA.
#pragma once

#include "cpu/q8_x86.hpp"

namespace lapidary::cpu {
namespace {

struct Avx2 {
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr int kLanes = 2;

  LAPIDARY_INLINE static Ints zeros() { return _mm256_setzero_si256(); }
  LAPIDARY_INLINE static Ints all_ints(int x) { return _mm256_set1_epi32(x); }
  LAPIDARY_INLINE static Ints all_bytes(char x) { return _mm256_set1_epi8(x); }
  LAPIDARY_INLINE static Ints all_words(short x) { return _mm256_set1_epi16(x); }
  LAPIDARY_INLINE static Floats all(float x) { return _mm256_set1_ps(x); }
  LAPIDARY_INLINE static Ints in_all_lanes(__m128i x) { return _mm256_broadcastsi128_si256(x); }
  LAPIDARY_INLINE static Floats in_all_lanes(__m128 x) { return _mm256_insertf128_ps(_mm256_castps128_ps256(x), x, 1); }
  LAPIDARY_INLINE static Ints by_stream(__m128i x) { return _mm256_permute4x64_epi64(_mm256_castsi128_si256(x), 0x50); }
  // of(row): a lane
  template <class Of>
  LAPIDARY_INLINE static Ints of_rows(int v, Of of) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(of(v)), of(v + 2), 1);
  }
  LAPIDARY_INLINE static void store(float* to, Floats x) { _mm256_storeu_ps(to, x); }

  LAPIDARY_INLINE static Floats as_floats(Ints x) { return _mm256_castsi256_ps(x); }
  LAPIDARY_INLINE static Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
  LAPIDARY_INLINE static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  LAPIDARY_INLINE static Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  LAPIDARY_INLINE static Ints add_words(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
  template <int N>
  LAPIDARY_INLINE static Ints words_right(Ints x) { return _mm256_srli_epi16(x, N); }
  template <int N>
  LAPIDARY_INLINE static Ints words_left(Ints x) { return _mm256_slli_epi16(x, N); }
  LAPIDARY_INLINE static Ints times_words(Ints a, Ints b) { return _mm256_mullo_epi16(a, b); }
  // Of each lane: those at these places; those of the lower or upper halves in turns.
  LAPIDARY_INLINE static Ints bytes_at(Ints x, Ints places) { return _mm256_shuffle_epi8(x, places); }
  LAPIDARY_INLINE static Ints zip_lower(Ints a, Ints b) { return _mm256_unpacklo_epi8(a, b); }
  LAPIDARY_INLINE static Ints zip_upper(Ints a, Ints b) { return _mm256_unpackhi_epi8(a, b); }
  template <int N>
  LAPIDARY_INLINE static Ints shift_left(Ints x) { return _mm256_slli_epi32(x, N); }
  LAPIDARY_INLINE static Ints pairs(Ints weights, Ints q) { return _mm256_maddubs_epi16(weights, q); }
  LAPIDARY_INLINE static Ints pairs_of_words(Ints x, short factor) { return _mm256_madd_epi16(x, _mm256_set1_epi16(factor)); }
  LAPIDARY_INLINE static Ints pair_sums(Ints a, Ints b) { return _mm256_hadd_epi32(a, b); }

  LAPIDARY_INLINE static Floats load(const float* x) { return _mm256_loadu_ps(x); }
  // x: [16]
  LAPIDARY_INLINE static EvenOdd<Avx2> load_pairs(const float* x) {
    const auto ordered = [](Floats y) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(y), 0xd8)); };
    return {ordered(_mm256_shuffle_ps(load(x), load(x + 8), 0x88)), ordered(_mm256_shuffle_ps(load(x), load(x + 8), 0xdd))};
  }
  LAPIDARY_INLINE static Ints size_bits(Floats x) { return _mm256_castps_si256(x) & all_ints(0x7fffffff); }
  LAPIDARY_INLINE static Ints max(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
  LAPIDARY_INLINE static Ints rounded(Floats x) {
    return _mm256_cvtps_epi32(x) & _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q));
  }
  LAPIDARY_INLINE static void store_bytes(std::int8_t* to, Ints x) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storeu_si64(to, _mm_packs_epi16(words, words));
  }
  LAPIDARY_INLINE static float largest(Ints sizes) {
    return largest_of(_mm_max_epi32(_mm256_castsi256_si128(sizes), _mm256_extracti128_si256(sizes, 1)));
  }
  LAPIDARY_INLINE static std::int32_t total(Ints x) {
    return total_of(_mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
  }
};

}  // namespace
}  // namespace lapidary::cpu
