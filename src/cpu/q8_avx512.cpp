// The products of q8.hpp with AVX-512 and its dot products of bytes, VNNI. This file alone is compiled for processors that
// have them; instructions.hpp says who may call it.
//
// A vector has a quarter for each of the four rows of a step: 16 bytes of weights, or the sums of four activation rows.
#include "cpu/q8_x86.hpp"

namespace lapidary::cpu {
namespace {

// Four activation rows, each with its partial sums in all quarters, to [stream][row].
LAPIDARY_INLINE __m512i gathered(const __m512i* d) {
  const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(d[0], d[1]), _mm512_unpackhi_epi32(d[0], d[1]));
  const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(d[2], d[3]), _mm512_unpackhi_epi32(d[2], d[3]));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

struct Avx512 : QuantisingX86 {
  template <int Bits, int Group, int Rows>
  static void multiply(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    constexpr int kGroupBytes = Group * Bits / 8, kFours = filled(Rows) / 4;
    const __m512i by_stream = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const auto activations = [](const std::int8_t* q) { return _mm512_broadcast_i32x4(load(q)); };
    const int groups = w.cols / Group;
    for (int step = steps.begin; step < steps.end; ++step) {
      const Streams streams(w, step);
      const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
      const std::int8_t* q = tile.q;
      const float* factors = tile.factors;
      __m512 sums[kFours];
      for (__m512& sum : sums) sum = _mm512_setzero_ps();

      for (int g = 0; g < groups; ++g, q += Rows * Group, factors += 2 * filled(Rows)) {
        fetch(streams, g * kGroupBytes, kGroupBytes);
        __m512i d[filled(Rows)];
        for (__m512i& sum : d) sum = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (int at = 0; at < kGroupBytes; at += 16) {
          const int from = g * kGroupBytes + at;
          const __m512i bytes = _mm512_inserti64x4(_mm512_castsi256_si512(load_two(streams, 0, 1, from)),
                                                   load_two(streams, 2, 3, from), 1);
#pragma GCC unroll 8
          for (int r = 0; r < Rows; ++r) d[r] = _mm512_dpbusd_epi32(d[r], bytes, activations(q + r * Group + at));
          if constexpr (Bits == 4) {
            const __m512i low = _mm512_and_si512(_mm512_slli_epi16(bytes, 4), _mm512_set1_epi8(-16));  // 16 lo
#pragma GCC unroll 8
            for (int r = 0; r < Rows; ++r)
              d[r] = _mm512_dpbusd_epi32(d[r], low, activations(q + r * Group + Group / 2 + at));
          }
        }
        const __m512i words = _mm512_permutexvar_epi32(by_stream, _mm512_castsi128_si512(load(scales + g * kStreams)));
        const __m512 s = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-0x10000)));
        const __m512 b = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
#pragma GCC unroll 2
        for (int i = 0; i < kFours; ++i) {
          const __m512 a = _mm512_broadcast_f32x4(_mm_loadu_ps(factors + 4 * i));
          const __m512 a_sum = _mm512_broadcast_f32x4(_mm_loadu_ps(factors + filled(Rows) + 4 * i));
          sums[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(gathered(d + 4 * i)), _mm512_mul_ps(s, a), sums[i]);
          sums[i] = _mm512_fmadd_ps(b, a_sum, sums[i]);
        }
      }

      float lanes[kFours][kStreams][4];
      for (int i = 0; i < kFours; ++i) _mm512_storeu_ps(lanes[i], sums[i]);
      for (int r = 0; r < Rows; ++r)
        for (int i = 0; i < kStreams; ++i)
          if (streams.rows[i] < w.rows) y[r][streams.rows[i]] = lanes[r / 4][i][r % 4];
    }
  }
};

}  // namespace

const Q8Kernels kAvx512Q8 = q8_kernels<Avx512>("avx512", Order::quarters);

}  // namespace lapidary::cpu
