// The products of q8.hpp with AVX-512 and its dot products of bytes, VNNI. This file alone is compiled for processors that
// have them; instructions.hpp says who may call it.
#include "cpu/q8_x86.hpp"

namespace lapidary::cpu {
namespace {

struct Avx512 {
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr int kLanes = 4;

  LAPIDARY_INLINE static Ints zeros() { return _mm512_setzero_si512(); }
  LAPIDARY_INLINE static Ints all_ints(int x) { return _mm512_set1_epi32(x); }
  LAPIDARY_INLINE static Ints all_bytes(char x) { return _mm512_set1_epi8(x); }
  LAPIDARY_INLINE static Ints all_words(short x) { return _mm512_set1_epi16(x); }
  LAPIDARY_INLINE static Floats all(float x) { return _mm512_set1_ps(x); }
  LAPIDARY_INLINE static Ints in_all_lanes(__m128i x) { return _mm512_broadcast_i32x4(x); }
  LAPIDARY_INLINE static Floats in_all_lanes(__m128 x) { return _mm512_broadcast_f32x4(x); }
  LAPIDARY_INLINE static Ints by_stream(__m128i x) {
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3), _mm512_castsi128_si512(x));
  }
  // of(row): a lane
  template <class Of>
  LAPIDARY_INLINE static Ints of_rows(int, Of of) {
    const auto two = [&](int i) __attribute__((always_inline)) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(of(i)), of(i + 1), 1);
    };
    return _mm512_inserti64x4(_mm512_castsi256_si512(two(0)), two(2), 1);
  }
  LAPIDARY_INLINE static void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }

  LAPIDARY_INLINE static Floats as_floats(Ints x) { return _mm512_castsi512_ps(x); }
  LAPIDARY_INLINE static Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
  LAPIDARY_INLINE static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  LAPIDARY_INLINE static Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  template <int N>
  LAPIDARY_INLINE static Ints words_right(Ints x) { return _mm512_srli_epi16(x, N); }
  template <int N>
  LAPIDARY_INLINE static Ints words_left(Ints x) { return _mm512_slli_epi16(x, N); }
  LAPIDARY_INLINE static Ints times_words(Ints a, Ints b) { return _mm512_mullo_epi16(a, b); }
  // Of each lane: those at these places; those of the lower or upper halves in turns.
  LAPIDARY_INLINE static Ints bytes_at(Ints x, Ints places) { return _mm512_shuffle_epi8(x, places); }
  LAPIDARY_INLINE static Ints zip_lower(Ints a, Ints b) { return _mm512_unpacklo_epi8(a, b); }
  LAPIDARY_INLINE static Ints zip_upper(Ints a, Ints b) { return _mm512_unpackhi_epi8(a, b); }
  template <int N>
  LAPIDARY_INLINE static Ints shift_left(Ints x) { return _mm512_slli_epi32(x, N); }
  LAPIDARY_INLINE static Ints add_dots(Ints sums, Ints weights, Ints q) { return _mm512_dpbusd_epi32(sums, weights, q); }
  LAPIDARY_INLINE static Ints pair_sums(Ints a, Ints b) {
    const Floats x = as_floats(a), y = as_floats(b);
    return add(_mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88)), _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xdd)));
  }

  LAPIDARY_INLINE static Floats load(const float* x) { return _mm512_loadu_ps(x); }
  // x: [32]
  LAPIDARY_INLINE static EvenOdd<Avx512> load_pairs(const float* x) {
    const Ints even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return {_mm512_permutex2var_ps(load(x), even, load(x + 16)),
            _mm512_permutex2var_ps(load(x), add(even, all_ints(1)), load(x + 16))};
  }
  LAPIDARY_INLINE static Ints size_bits(Floats x) { return _mm512_castps_si512(x) & all_ints(0x7fffffff); }
  LAPIDARY_INLINE static Ints max(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  LAPIDARY_INLINE static Ints rounded(Floats x) { return _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x); }
  LAPIDARY_INLINE static void store_bytes(std::int8_t* to, Ints x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(x));
  }
  LAPIDARY_INLINE static float largest(Ints sizes) {
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(sizes))));
  }
  LAPIDARY_INLINE static std::int32_t total(Ints x) { return _mm512_reduce_add_epi32(x); }
};

}  // namespace

const Q8Kernels kAvx512Q8 = q8_kernels<ProductsX86<Avx512, WholeBytes>>("avx512", Order::quarters);

}  // namespace lapidary::cpu
