// Affine weights as they are multiplied, with AVX2 or AVX-512: eight codes of a row, or of two rows side by side, by shifts of one
// word. Files that are compiled for instructions of their own include this, so nothing here may have a name that the linker sees.
#pragma once

#if defined(__AVX2__)

#include <immintrin.h>

#include <array>
#include <cstring>

#include "cpu/vec.hpp"
#include "numeric/affine.hpp"

namespace lapidary::cpu {
namespace {

// Vectors of the lanes of kRows weight rows.
struct OneRow {
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr int kRows = 1;

  [[gnu::always_inline]] static Ints all(int x) { return _mm256_set1_epi32(x); }
  [[gnu::always_inline]] static Ints all_lanes(Ints x) { return x; }
  [[gnu::always_inline]] static Ints in_each(std::array<std::uint32_t, 1> words) { return all(static_cast<int>(words[0])); }
  // Of each word its lower half four times, then its upper half.
  [[gnu::always_inline]] static Ints halves_in_each(std::array<std::uint64_t, 1> words) {
    return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(_mm_cvtsi64_si128(static_cast<long long>(words[0]))),
                                       _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
  }
  [[gnu::always_inline]] static Floats in_each(std::array<float, 1> numbers) { return _mm256_set1_ps(numbers[0]); }
  [[gnu::always_inline]] static Ints shift_right(Ints x, Ints counts) { return _mm256_srlv_epi32(x, counts); }
  [[gnu::always_inline]] static Ints both(Ints a, Ints b) { return _mm256_and_si256(a, b); }
  [[gnu::always_inline]] static Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
  [[gnu::always_inline]] static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  [[gnu::always_inline]] static Floats repeat(const float* x) { return _mm256_loadu_ps(x); }
  [[gnu::always_inline]] static void store(float* to, Floats x) { _mm256_storeu_ps(to, x); }
};

#if defined(__AVX512F__)
struct TwoRows {
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr int kRows = 2;

  static constexpr __mmask16 kSecond = 0xff00;
  [[gnu::always_inline]] static Ints all(int x) { return _mm512_set1_epi32(x); }
  [[gnu::always_inline]] static Ints all_lanes(__m256i x) { return _mm512_broadcast_i32x8(x); }
  [[gnu::always_inline]] static Ints in_each(std::array<std::uint32_t, 2> words) {
    return _mm512_mask_set1_epi32(all(static_cast<int>(words[0])), kSecond, static_cast<int>(words[1]));
  }
  [[gnu::always_inline]] static Ints halves_in_each(std::array<std::uint64_t, 2> words) {
    const __m128i pair = _mm_set_epi64x(static_cast<long long>(words[1]), static_cast<long long>(words[0]));
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3), _mm512_castsi128_si512(pair));
  }
  [[gnu::always_inline]] static Floats in_each(std::array<float, 2> numbers) {
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(numbers[0]), kSecond, _mm_set_ss(numbers[1]));
  }
  [[gnu::always_inline]] static Ints shift_right(Ints x, Ints counts) { return _mm512_srlv_epi32(x, counts); }
  [[gnu::always_inline]] static Ints both(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  [[gnu::always_inline]] static Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
  [[gnu::always_inline]] static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  [[gnu::always_inline]] static Floats repeat(const float* x) { return _mm512_broadcast_f32x8(_mm256_loadu_ps(x)); }
  [[gnu::always_inline]] static void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }
};
#endif

// Eight codes of each row, from as many bytes as they have bits. from: of each row
template <class Rows, int Bits>
[[gnu::always_inline]] inline typename Rows::Ints eight_codes(const std::array<const std::byte*, Rows::kRows>& from) {
  constexpr int kLast = 3 * Bits;
  if constexpr (Bits <= 4) {
    std::array<std::uint32_t, Rows::kRows> words{};
    for (int row = 0; row < Rows::kRows; ++row) std::memcpy(&words[row], from[row], Bits);
    const auto counts = Rows::all_lanes(_mm256_setr_epi32(0, Bits, 2 * Bits, 3 * Bits, 4 * Bits, 5 * Bits, 6 * Bits, 7 * Bits));
    return Rows::both(Rows::shift_right(Rows::in_each(words), counts), Rows::all((1 << Bits) - 1));
  } else {
    std::array<std::uint64_t, Rows::kRows> words{};
    for (int row = 0; row < Rows::kRows; ++row) {
      std::memcpy(&words[row], from[row], Bits);
      words[row] = (words[row] & 0xffffffffu) | words[row] >> 4 * Bits << 32;
    }
    const auto counts = Rows::all_lanes(_mm256_setr_epi32(0, Bits, 2 * Bits, kLast, 0, Bits, 2 * Bits, kLast));
    return Rows::both(Rows::shift_right(Rows::halves_in_each(words), counts), Rows::all((1 << Bits) - 1));
  }
}

// y[r][row] = x[r] . w[row] for Sets x Rows::kRows weight rows of one matrix
template <class Rows, int Sets, int R, int Bits>
void multiply_affine_rows(const float* const* x, const std::array<numeric::StoredRow, Sets * Rows::kRows>& w, float (*y)[Sets * Rows::kRows]) {
  typename Rows::Floats sum[Sets][R] = {};
  const graph::Storage& storage = w[0].storage;
  std::array<const std::byte*, Rows::kRows> from[Sets];
  for (int row = 0; row < Sets * Rows::kRows; ++row) from[row / Rows::kRows][row % Rows::kRows] = w[row].values;
  for (int begin = 0, group = 0; begin < w[0].cols; begin += storage.group, ++group) {
    typename Rows::Floats scale[Sets], bias[Sets];
    for (int set = 0; set < Sets; ++set) {
      std::array<float, Rows::kRows> scales, biases;
      for (int row = 0; row < Rows::kRows; ++row) {
        scales[row] = numeric::read_number(storage.type, w[set * Rows::kRows + row].scales, group);
        biases[row] = numeric::read_number(storage.type, w[set * Rows::kRows + row].biases, group);
      }
      scale[set] = Rows::in_each(scales);
      bias[set] = Rows::in_each(biases);
    }
    for (int i = begin; i < begin + storage.group; i += kLanes) {
      typename Rows::Floats weights[Sets];
      for (int set = 0; set < Sets; ++set) {
        weights[set] = Rows::fma(scale[set], Rows::to_floats(eight_codes<Rows, Bits>(from[set])), bias[set]);
        for (const std::byte*& codes : from[set]) codes += Bits;
      }
      for (int r = 0; r < R; ++r) {
        const auto left = Rows::repeat(x[r] + i);
        for (int set = 0; set < Sets; ++set) sum[set][r] = Rows::fma(left, weights[set], sum[set][r]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    alignas(64) float lanes[Sets * Rows::kRows * kLanes];
    for (int set = 0; set < Sets; ++set) Rows::store(lanes + set * Rows::kRows * kLanes, sum[set][r]);
    sum_lanes(lanes, Sets * Rows::kRows, y[r]);
  }
}

}  // namespace
}  // namespace lapidary::cpu

#endif
