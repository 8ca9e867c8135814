// Attention of the fast mode with AVX2 and FMA. Compiled for processors that have them; instructions.hpp says who
// may call it.
#include <immintrin.h>

#include "cpu/attention_vectors.hpp"

namespace lapidary::cpu {
namespace {

struct EightFloats {
  using Floats = __m256;
  using Words = __m256i;
  using Rows = xsimd::make_sized_batch_t<float, 8>;
  static constexpr int kFloats = 8, kMerged = 2, kMaxLines = 2, kMaxTogether = 4, kMaxSums = 8, kAhead = 4;

  [[gnu::always_inline]] static Words load(const std::uint16_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
  [[gnu::always_inline]] static Floats even_columns(Words words) { return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16)); }
  [[gnu::always_inline]] static Floats odd_columns(Words words) {
    return _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-0x10000)));
  }
  [[gnu::always_inline]] static Floats repeated(const float* four) { return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(four)); }
  [[gnu::always_inline]] static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  [[gnu::always_inline]] static Rows rows_of(const Floats* sums) {
    const __m256d rows = _mm256_castps_pd(_mm256_hadd_ps(sums[0], sums[1]));  // 0 1 4 5 2 3 6 7
    return Rows(_mm256_castpd_ps(_mm256_permute4x64_pd(rows, 0xd8)));
  }
};

template <int Pairs>
using Heads = VectorHeads<EightFloats, Pairs>;

}  // namespace

const AttentionKernels kAvx2Attention = {"avx2", TiledAttention<Heads>::attend, &TiledAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
