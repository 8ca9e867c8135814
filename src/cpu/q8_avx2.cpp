// The products of q8.hpp with AVX2 and FMA. This file alone is compiled for processors that have them; instructions.hpp
// says who may call it.
//
// Products of bytes are summed in pairs of 16 bits, too few for whole bytes. So a byte is taken apart, lo + 16 hi: a dot is
// the sum of lo u and 16 times the sum of hi u, for 4 bits of hi u + lo v.
#include "cpu/q8_codes_x86.hpp"

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

// The same of codes of fewer than 8 bits.
template <Codes codes, int Group>
struct CodeGroup {
  static constexpr int kBytes = Group * bits_of(codes) / 8, kChunks = Group / 16;
  __m256i c[2][kChunks];

  LAPIDARY_INLINE CodeGroup(const Streams& streams, int g) {
    for (int half = 0; half < 2; ++half) {
      __m128i first[kChunks], second[kChunks];
      load_codes<codes, Group>(streams.at[half] + g * kBytes, first);
      load_codes<codes, Group>(streams.at[half + 2] + g * kBytes, second);
      for (int i = 0; i < kChunks; ++i) c[half][i] = _mm256_inserti128_si256(_mm256_castsi128_si256(first[i]), second[i], 1);
    }
  }

  // With one activation row, q: [Group]. Two products of at most 63 * 127 meet in 16 bits; of signed codes the activations take the sign.
  LAPIDARY_INLINE __m128i dots(const std::int8_t* q) const {
    __m256i d[2];
    for (int half = 0; half < 2; ++half) {
      d[half] = _mm256_setzero_si256();
      for (int i = 0; i < kChunks; ++i) {
        __m256i u = _mm256_broadcastsi128_si256(load(q + 16 * i)), size = c[half][i];
        if constexpr (codes == Codes::e2m1) {
          u = _mm256_sign_epi8(u, size);
          size = _mm256_abs_epi8(size);
        }
        d[half] = _mm256_add_epi32(d[half], _mm256_madd_epi16(_mm256_maddubs_epi16(size, u), _mm256_set1_epi16(1)));
      }
    }
    const __m256i sums = _mm256_hadd_epi32(d[0], d[1]);
    return _mm_hadd_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  }
};

// Scales and biases of a group, for the four rows of a step.
struct Scales {
  __m128 scale, bias;
  LAPIDARY_INLINE explicit Scales(const std::uint32_t* at) {
    const __m128i words = load(at);
    scale = _mm_castsi128_ps(_mm_and_si128(words, _mm_set1_epi32(-0x10000)));
    bias = _mm_castsi128_ps(_mm_slli_epi32(words, 16));
  }
  template <bool Biases>
  LAPIDARY_INLINE __m128 add_to(__m128 sums, __m128i dots, float a, float a_sum) const {
    sums = _mm_fmadd_ps(_mm_cvtepi32_ps(dots), _mm_mul_ps(scale, _mm_set1_ps(a)), sums);
    return Biases ? _mm_fmadd_ps(bias, _mm_set1_ps(a_sum), sums) : sums;
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
        const Scales of_group(scales + g * kStreams);
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r)
          sums[r] = of_group.add_to<true>(sums[r], weights.dots(q + r * Group), factors[r], factors[filled(Rows) + r]);
      }

      for (int r = 0; r < Rows; ++r) {
        float lanes[kStreams];
        _mm_storeu_ps(lanes, sums[r]);
        streams.store(lanes, w.rows, y[r]);
      }
    }
  }

  template <Codes codes, int Group>
  static void multiply_codes(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    using Weights = CodeGroup<codes, Group>;
    const int groups = w.cols / Group, rows = tile.rows, fill = filled(rows);
    for (int step = steps.begin; step < steps.end; ++step) {
      const Streams streams(w, step);
      const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
      const std::int8_t* q = tile.q;
      const float* factors = tile.factors;
      __m128 sums[kTileRows];
      for (__m128& sum : sums) sum = _mm_setzero_ps();

      for (int g = 0; g < groups; ++g, factors += 2 * fill) {
        fetch(streams, g * Weights::kBytes, Weights::kBytes);
        const Weights weights(streams, g);
        const Scales of_group(scales + g * kStreams);
        for (int r = 0; r < rows; ++r, q += Group)
          sums[r] = of_group.add_to<has_biases(codes)>(sums[r], weights.dots(q), factors[r], factors[fill + r]);
      }

      for (int r = 0; r < rows; ++r) {
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
