// Attention of the fast mode with AVX-512. Compiled for processors that have it; instructions.hpp says who may call it.
#include <immintrin.h>

#include "cpu/attention_vectors.hpp"

namespace lapidary::cpu {
namespace {

struct SixteenFloats {
  using Floats = __m512;
  using Words = __m512i;
  using Rows = xsimd::make_sized_batch_t<float, 8>;
  static constexpr int kFloats = 16, kMerged = 1, kMaxLines = 8, kMaxTogether = 8, kMaxSums = 16, kAhead = 4;

  [[gnu::always_inline]] static Words load(const std::uint16_t* at) { return _mm512_loadu_si512(at); }
  [[gnu::always_inline]] static Floats even_columns(Words words) { return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)); }
  [[gnu::always_inline]] static Floats odd_columns(Words words) {
    return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-0x10000)));
  }
  [[gnu::always_inline]] static Floats repeated(const float* four) { return _mm512_broadcast_f32x4(_mm_loadu_ps(four)); }
  [[gnu::always_inline]] static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  [[gnu::always_inline]] static Rows rows_of(const Floats* sums) {
    const __m512i even_and_odd = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m512 apart = _mm512_permutexvar_ps(even_and_odd, sums[0]);
    return Rows(_mm256_add_ps(_mm512_castps512_ps256(apart), _mm512_extractf32x8_ps(apart, 1)));
  }
};

template <int Pairs>
using Heads = VectorHeads<SixteenFloats, Pairs>;

}  // namespace

const AttentionKernels kAvx512Attention = {"avx512", TiledAttention<Heads>::attend, &TiledAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
