// Attention on codes of the fast mode with AVX-512 and its dot products, VNNI. Compiled for processors that have them;
// instructions.hpp says who may call it.
#include <immintrin.h>

#include "cpu/attention_coded_tiles.hpp"

namespace lapidary::cpu {
namespace {

template <int Pairs>
struct Heads : WordHeads<Pairs, Heads<Pairs>> {
  static constexpr int kHeads = 2 * Pairs;
  static constexpr int kChains = Pairs <= 2 ? 2 : 1;  // of sums: a dot product waits for the one before it

  // All heads together.
  template <class Soon, class Done>
  static void multiply(CodeLines lines, const std::int16_t* factors, int n, Soon soon, Done done) {
    __m512i all[kChains][kHeads][2];  // [4 rows][4]
    for (auto& of_chain : all)
      for (auto& of_head : of_chain)
        for (__m512i& sum : of_head) sum = _mm512_setzero_si512();
    const auto add = [&](int i, auto& of_chain) __attribute__((always_inline)) {
      soon(i);
      __m512i rows[2];
      for (int j = 0; j < 2; ++j)
        rows[j] = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines.data + i * lines.stride + j * 32)));
      for (int head = 0; head < kHeads; ++head) {
        const auto* at = reinterpret_cast<const __m128i*>(factors + (i * kHeads + head) * 8);
        const __m512i factor = _mm512_broadcast_i32x4(_mm_loadu_si128(at));
        for (int j = 0; j < 2; ++j) of_chain[head][j] = _mm512_dpwssd_epi32(of_chain[head][j], rows[j], factor);
      }
    };
    int i = 0;
    for (; i + kChains <= n; i += kChains)
      for (int chain = 0; chain < kChains; ++chain) add(i + chain, all[chain]);
    for (; i < n; ++i) add(i, all[0]);
    for (int head = 0; head < kHeads; ++head) {
      __m512i both[2];
      for (int j = 0; j < 2; ++j) both[j] = kChains == 1 ? all[0][head][j] : _mm512_add_epi32(all[0][head][j], all[kChains - 1][head][j]);
      const __m512i twos = pair_sums(both[0], both[1]), rows = pair_sums(twos, twos);  // 0 4 0 4, 1 5 1 5...
      const __m512i in_order = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0), rows);
      float sums[8];
      _mm256_storeu_ps(sums, _mm256_cvtepi32_ps(_mm512_castsi512_si256(in_order)));
      done(head, Vec::load(sums));
    }
  }

  // Of each four: those of neighbours in a, then in b.
  static __m512i pair_sums(__m512i a, __m512i b) {
    const __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
    return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88)), _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xdd)));
  }
};

}  // namespace

const CodedAttentionKernels kAvx512CodedAttention = {"avx512", CodedAttention<Heads>::attend, CodedAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
