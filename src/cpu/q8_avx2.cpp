// The products of q8.hpp with AVX2 and FMA. This file alone is compiled for processors that have them; instructions.hpp
// says who may call it.
//
// Products of bytes are summed in pairs of 16 bits, too few for whole bytes. So a byte is taken apart, lo + 16 hi: a dot is
// the sum of lo u and 16 times the sum of hi u, for 4 bits of hi u + lo v.
#include "cpu/q8_x86.hpp"

namespace lapidary::cpu {
namespace {

// A group of the four rows of a step, 16 bytes at a time of the rows 0 and 2, and of 1 and 3.
template <int Bits, int Group>
struct WeightGroup {
  static constexpr int kBytes = Group * Bits / 8, kChunks = kBytes / 16;
  __m256i low[2][kChunks], high[2][kChunks];

  LAPIDARY_INLINE WeightGroup(const Streams& streams, int g) {
    const __m256i fifteen = _mm256_set1_epi8(15);
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < kChunks; ++i) {
        const __m256i bytes = load_two(streams, half, half + 2, g * kBytes + 16 * i);
        low[half][i] = _mm256_and_si256(bytes, fifteen);
        high[half][i] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), fifteen);
      }
  }

  // With one activation row, q: [Group]. At most 8 products of 2 * 15 * 127 meet in 16 bits.
  LAPIDARY_INLINE __m128i dots(const std::int8_t* q) const {
    __m256i d[2];
    for (int half = 0; half < 2; ++half) {
      __m256i ones = _mm256_setzero_si256(), sixteens = ones;
      for (int i = 0; i < kChunks; ++i) {
        const __m256i u = _mm256_broadcastsi128_si256(load(q + 16 * i));
        ones = _mm256_add_epi16(ones, _mm256_maddubs_epi16(low[half][i], u));
        sixteens = _mm256_add_epi16(sixteens, _mm256_maddubs_epi16(high[half][i], u));
        if constexpr (Bits == 4) {
          const __m256i v = _mm256_broadcastsi128_si256(load(q + Group / 2 + 16 * i));
          sixteens = _mm256_add_epi16(sixteens, _mm256_maddubs_epi16(low[half][i], v));
        }
      }
      d[half] = _mm256_add_epi32(_mm256_madd_epi16(ones, _mm256_set1_epi16(1)),
                                 _mm256_madd_epi16(sixteens, _mm256_set1_epi16(16)));
    }
    const __m256i sums = _mm256_hadd_epi32(d[0], d[1]);
    return _mm_hadd_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  }
};

struct Avx2 : QuantisingX86 {
  template <int Bits, int Group, int Rows>
  static void multiply(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    using Weights = WeightGroup<Bits, Group>;
    const int groups = w.cols / Group;
    for (int step = steps.begin; step < steps.end; ++step) {
      const Streams streams(w, step);
      const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
      const std::int8_t* q = tile.q;
      const float* factors = tile.factors;
      __m128 sums[Rows];
      for (__m128& sum : sums) sum = _mm_setzero_ps();

      for (int g = 0; g < groups; ++g, q += Rows * Group, factors += 2 * filled(Rows)) {
        fetch(streams, g * Weights::kBytes, Weights::kBytes);
        const Weights weights(streams, g);
        const __m128i words = load(scales + g * kStreams);
        const __m128 s = _mm_castsi128_ps(_mm_and_si128(words, _mm_set1_epi32(-0x10000)));
        const __m128 b = _mm_castsi128_ps(_mm_slli_epi32(words, 16));
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) {
          const __m128 dots = _mm_cvtepi32_ps(weights.dots(q + r * Group));
          sums[r] = _mm_fmadd_ps(dots, _mm_mul_ps(s, _mm_set1_ps(factors[r])), sums[r]);
          sums[r] = _mm_fmadd_ps(b, _mm_set1_ps(factors[filled(Rows) + r]), sums[r]);
        }
      }

      for (int r = 0; r < Rows; ++r) {
        float lanes[kStreams];
        _mm_storeu_ps(lanes, sums[r]);
        streams.store(lanes, w.rows, y[r]);
      }
    }
  }
};

}  // namespace

const Q8Kernels kAvx2Q8 = q8_kernels<Avx2>("avx2", Order::quarters);

}  // namespace lapidary::cpu
