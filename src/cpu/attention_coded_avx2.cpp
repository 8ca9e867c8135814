// Attention on codes of the fast mode with AVX2 and FMA. Compiled for processors that have them; instructions.hpp says who may call
// it.
#include <immintrin.h>

#include "cpu/attention_coded_tiles.hpp"

namespace lapidary::cpu {
namespace {

template <int Pairs>
struct Heads : WordHeads<Pairs, Heads<Pairs>> {
  // Two heads at a time: their sums and the rows stay in registers.
  template <class Soon, class Done>
  static void multiply(CodeLines lines, const std::int16_t* factors, int n, Soon soon, Done done) {
    for (int i = 0; i < n; ++i) soon(i);
    for (int pair = 0; pair < Pairs; ++pair) {
      __m256i all[2][4];  // [2 rows][4]
      for (auto& of_head : all)
        for (__m256i& sum : of_head) sum = _mm256_setzero_si256();
      for (int i = 0; i < n; ++i) {
        const std::int16_t* f = factors + (i * 2 * Pairs + 2 * pair) * 8;
        const __m256i factor[2] = {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(f))),
                                   _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(f + 8)))};
        for (int j = 0; j < 4; ++j) {
          const auto* at = reinterpret_cast<const __m128i*>(lines.data + i * lines.stride + j * 16);
          const __m256i rows = _mm256_cvtepi8_epi16(_mm_loadu_si128(at));
          for (int head = 0; head < 2; ++head)
            all[head][j] = _mm256_add_epi32(all[head][j], _mm256_madd_epi16(rows, factor[head]));
        }
      }
      for (int head = 0; head < 2; ++head) {
        const __m256i a = _mm256_hadd_epi32(all[head][0], all[head][1]), b = _mm256_hadd_epi32(all[head][2], all[head][3]);
        const __m256i c = _mm256_hadd_epi32(a, b);  // rows 0 2 4 6, 1 3 5 7
        const __m256i in_order = _mm256_permutevar8x32_epi32(c, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        float sums[8];
        _mm256_storeu_ps(sums, _mm256_cvtepi32_ps(in_order));
        done(2 * pair + head, Vec::load(sums));
      }
    }
  }
};

}  // namespace

const CodedAttentionKernels kAvx2CodedAttention = {"avx2", CodedAttention<Heads>::attend, CodedAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
