// The products of q8.hpp with SSE4.1. This file alone is compiled for processors that have it; instructions.hpp says who may call
// it.
#include "cpu/q8_x86.hpp"

namespace lapidary::cpu {
namespace {

// a + b rounded to float once, of doubles. Where a double is not the sum, its last bit becomes odd, which keeps it off the
// middle between two floats.
__attribute__((noinline, cold)) __m128 rounded_once(__m128d a, __m128d b) {
  const __m128d sum = a + b, added = sum - a, error = (a - (sum - added)) + (b - added);
  const __m128d outwards = _mm_xor_pd(error, _mm_and_pd(sum, _mm_set1_pd(-0.0)));  // no number where the sum is none
  const __m128i less = _mm_castpd_si128(_mm_cmplt_pd(outwards, _mm_setzero_pd()));
  const __m128i more = _mm_castpd_si128(_mm_cmpgt_pd(outwards, _mm_setzero_pd()));
  const __m128i towards_zero = _mm_add_epi64(_mm_castpd_si128(sum), less);
  return _mm_cvtpd_ps(_mm_castsi128_pd(towards_zero | ((less | more) & _mm_set1_epi64x(1))));
}

// Where rounding to double and then to float may be wrong: the double is the middle between two floats, of which only
// the first 25 bits are not 0, fewer for denormals.
LAPIDARY_INLINE bool has_middle(__m128d x, __m128d y) {
  const auto middle = [](__m128d z) {
    return _mm_cmpeq_epi64(_mm_castpd_si128(z) & _mm_set1_epi64x(0xfffffff), _mm_setzero_si128());
  };
  const __m128i either = middle(x) | middle(y);
  return !_mm_testz_si128(either, either);
}

struct Sse41 {
  using Ints = __m128i;
  using Floats = __m128;
  static constexpr int kLanes = 1;

  LAPIDARY_INLINE static Ints zeros() { return _mm_setzero_si128(); }
  LAPIDARY_INLINE static Ints all_ints(int x) { return _mm_set1_epi32(x); }
  LAPIDARY_INLINE static Ints all_bytes(char x) { return _mm_set1_epi8(x); }
  LAPIDARY_INLINE static Ints all_words(short x) { return _mm_set1_epi16(x); }
  LAPIDARY_INLINE static Floats all(float x) { return _mm_set1_ps(x); }
  LAPIDARY_INLINE static Ints in_all_lanes(__m128i x) { return x; }
  LAPIDARY_INLINE static Floats in_all_lanes(__m128 x) { return x; }
  LAPIDARY_INLINE static Ints by_stream(__m128i x) { return x; }
  // of(row): a lane
  template <class Of>
  LAPIDARY_INLINE static Ints of_rows(int v, Of of) { return of(v); }
  LAPIDARY_INLINE static void store(float* to, Floats x) { _mm_storeu_ps(to, x); }

  LAPIDARY_INLINE static Floats as_floats(Ints x) { return _mm_castsi128_ps(x); }
  LAPIDARY_INLINE static Floats to_floats(Ints x) { return _mm_cvtepi32_ps(x); }
  // Rounded once: products of floats are exact in double.
  LAPIDARY_INLINE static Floats fma(Floats a, Floats b, Floats c) {
    const auto high = [](Floats x) { return _mm_cvtps_pd(_mm_movehl_ps(x, x)); };
    const __m128d products[] = {_mm_cvtps_pd(a) * _mm_cvtps_pd(b), high(a) * high(b)}, more[] = {_mm_cvtps_pd(c), high(c)};
    const __m128d sums[] = {products[0] + more[0], products[1] + more[1]};
    if (has_middle(sums[0], sums[1])) [[unlikely]]
      return _mm_movelh_ps(rounded_once(products[0], more[0]), rounded_once(products[1], more[1]));
    return _mm_movelh_ps(_mm_cvtpd_ps(sums[0]), _mm_cvtpd_ps(sums[1]));
  }
  LAPIDARY_INLINE static Ints add(Ints a, Ints b) { return _mm_add_epi32(a, b); }
  LAPIDARY_INLINE static Ints add_words(Ints a, Ints b) { return _mm_add_epi16(a, b); }
  template <int N>
  LAPIDARY_INLINE static Ints words_right(Ints x) { return _mm_srli_epi16(x, N); }
  template <int N>
  LAPIDARY_INLINE static Ints words_left(Ints x) { return _mm_slli_epi16(x, N); }
  LAPIDARY_INLINE static Ints times_words(Ints a, Ints b) { return _mm_mullo_epi16(a, b); }
  // Of each lane: those at these places; those of the lower or upper halves in turns.
  LAPIDARY_INLINE static Ints bytes_at(Ints x, Ints places) { return _mm_shuffle_epi8(x, places); }
  LAPIDARY_INLINE static Ints zip_lower(Ints a, Ints b) { return _mm_unpacklo_epi8(a, b); }
  LAPIDARY_INLINE static Ints zip_upper(Ints a, Ints b) { return _mm_unpackhi_epi8(a, b); }
  template <int N>
  LAPIDARY_INLINE static Ints shift_left(Ints x) { return _mm_slli_epi32(x, N); }
  LAPIDARY_INLINE static Ints pairs(Ints weights, Ints q) { return _mm_maddubs_epi16(weights, q); }
  LAPIDARY_INLINE static Ints pairs_of_words(Ints x, short factor) { return _mm_madd_epi16(x, _mm_set1_epi16(factor)); }
  LAPIDARY_INLINE static Ints pair_sums(Ints a, Ints b) { return _mm_hadd_epi32(a, b); }

  LAPIDARY_INLINE static Floats load(const float* x) { return _mm_loadu_ps(x); }
  // x: [8]
  LAPIDARY_INLINE static EvenOdd<Sse41> load_pairs(const float* x) {
    return {_mm_shuffle_ps(load(x), load(x + 4), 0x88), _mm_shuffle_ps(load(x), load(x + 4), 0xdd)};
  }
  LAPIDARY_INLINE static Ints size_bits(Floats x) { return _mm_castps_si128(x) & all_ints(0x7fffffff); }
  LAPIDARY_INLINE static Ints max(Ints a, Ints b) { return _mm_max_epi32(a, b); }
  LAPIDARY_INLINE static Ints rounded(Floats x) { return _mm_cvtps_epi32(x) & _mm_castps_si128(_mm_cmpord_ps(x, x)); }
  LAPIDARY_INLINE static void store_bytes(std::int8_t* to, Ints x) {
    const __m128i words = _mm_packs_epi32(x, x);
    _mm_storeu_si32(to, _mm_packs_epi16(words, words));
  }
  LAPIDARY_INLINE static float largest(Ints sizes) { return largest_of(sizes); }
  LAPIDARY_INLINE static std::int32_t total(Ints x) { return total_of(x); }
};

}  // namespace

const Q8Kernels kSse41Q8 = q8_kernels<ProductsX86<Sse41, HalfBytes>>("sse4.1", Order::quarters);

}  // namespace lapidary::cpu
