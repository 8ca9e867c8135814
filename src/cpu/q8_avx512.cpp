// The products of q8.hpp with AVX-512 and its dot products of bytes, VNNI. This file alone is compiled for processors that
// have them; instructions.hpp says who may call it.
//
// A vector has a quarter for each of the four rows of a step: 16 bytes of weights, or the sums of four activation rows.
#include "cpu/q8_codes_x86.hpp"

namespace lapidary::cpu {
namespace {

// Four activation rows, each with its partial sums in all quarters, to [stream][row].
LAPIDARY_INLINE __m512i gathered(const __m512i* d) {
  const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(d[0], d[1]), _mm512_unpackhi_epi32(d[0], d[1]));
  const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(d[2], d[3]), _mm512_unpackhi_epi32(d[2], d[3]));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

// sums: [stream][row] of up to four activation rows
LAPIDARY_INLINE void store_four(const Streams& streams, int rows_of_matrix, __m512 sums, float* const* y, int rows) {
  float lanes[kStreams][4];
  _mm512_storeu_ps(lanes, sums);
  for (int r = 0; r < std::min(rows, 4); ++r)
    for (int i = 0; i < kStreams; ++i)
      if (streams.rows[i] < rows_of_matrix) y[r][streams.rows[i]] = lanes[i][r];
}

// A group of the four rows of a step, of codes of fewer than 8 bits.
template <Codes codes, int Group>
struct CodeGroup {
  static constexpr int kBytes = Group * bits_of(codes) / 8, kChunks = Group / 16;
  __m512i sizes[kChunks];
  __mmask64 negative[kChunks];

  LAPIDARY_INLINE CodeGroup(const Streams& streams, int g) {
    __m128i c[kStreams][kChunks];
    for (int i = 0; i < kStreams; ++i) load_codes<codes, Group>(streams.at[i] + g * kBytes, c[i]);
    for (int i = 0; i < kChunks; ++i) {
      const __m256i first = _mm256_inserti128_si256(_mm256_castsi128_si256(c[0][i]), c[1][i], 1);
      const __m256i second = _mm256_inserti128_si256(_mm256_castsi128_si256(c[2][i]), c[3][i], 1);
      const __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
      sizes[i] = codes == Codes::e2m1 ? _mm512_abs_epi8(all) : all;
      negative[i] = _mm512_movepi8_mask(all);
    }
  }

  // With one activation row, q: [Group]: partial sums in all quarters.
  LAPIDARY_INLINE __m512i dots(const std::int8_t* q) const {
    __m512i d = _mm512_setzero_si512();
    for (int i = 0; i < kChunks; ++i) {
      __m512i u = _mm512_broadcast_i32x4(load(q + 16 * i));
      if constexpr (codes == Codes::e2m1) u = _mm512_mask_sub_epi8(u, negative[i], _mm512_setzero_si512(), u);
      d = _mm512_dpbusd_epi32(d, sizes[i], u);
    }
    return d;
  }
};

// Scales and biases of a group, for the four rows of a step: a quarter each.
struct Scales {
  __m512 scale, bias;
  LAPIDARY_INLINE explicit Scales(const std::uint32_t* at) {
    const __m512i by_stream = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i words = _mm512_permutexvar_epi32(by_stream, _mm512_castsi128_si512(load(at)));
    scale = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-0x10000)));
    bias = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  }
  // Of four activation rows. a, a_sum: [4]
  template <bool Biases>
  LAPIDARY_INLINE __m512 add_to(__m512 sums, __m512i dots, const float* a, const float* a_sum) const {
    const auto by_row = [](const float* four) { return _mm512_broadcast_f32x4(_mm_loadu_ps(four)); };
    sums = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), _mm512_mul_ps(scale, by_row(a)), sums);
    return Biases ? _mm512_fmadd_ps(bias, by_row(a_sum), sums) : sums;
  }
};

struct Avx512 : QuantisingX86 {
  template <int Bits, int Group, int Rows>
  static void multiply(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    constexpr int kGroupBytes = Group * Bits / 8, kFours = filled(Rows) / 4;
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
        const Scales of_group(scales + g * kStreams);
#pragma GCC unroll 2
        for (int i = 0; i < kFours; ++i)
          sums[i] = of_group.add_to<true>(sums[i], gathered(d + 4 * i), factors + 4 * i, factors + filled(Rows) + 4 * i);
      }

      for (int i = 0; i < kFours; ++i) store_four(streams, w.rows, sums[i], y + 4 * i, Rows - 4 * i);
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
      __m512 sums[kTileRows / 4];
      for (__m512& sum : sums) sum = _mm512_setzero_ps();

      for (int g = 0; g < groups; ++g, factors += 2 * fill) {
        fetch(streams, g * Weights::kBytes, Weights::kBytes);
        const Weights weights(streams, g);
        const Scales of_group(scales + g * kStreams);
        for (int first = 0; first < rows; first += 4) {
          __m512i d[4];
#pragma GCC unroll 4
          for (int r = 0; r < 4; ++r) {
            const bool is_row = first + r < rows;
            d[r] = is_row ? weights.dots(q) : _mm512_setzero_si512();
            q += is_row ? Group : 0;
          }
          sums[first / 4] = of_group.add_to<has_biases(codes)>(sums[first / 4], gathered(d), factors + first, factors + fill + first);
        }
      }
      for (int first = 0; first < rows; first += 4) store_four(streams, w.rows, sums[first / 4], y + first, rows - first);
    }
  }
};

}  // namespace

const Q8Kernels kAvx512Q8 = q8_kernels<Avx512>("avx512", Order::quarters);

}  // namespace lapidary::cpu
