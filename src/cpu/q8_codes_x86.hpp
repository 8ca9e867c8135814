// Codes out of their bytes on x86. Each file that includes this is compiled for instructions of its own, so nothing here may have a
// name that the linker sees.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "cpu/q8_codes.hpp"

namespace lapidary::cpu {
namespace {

LAPIDARY_INLINE __m128i load(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }

// The first kBytes of 16.
template <int kBytes>
LAPIDARY_INLINE __m128i load_first(const std::uint8_t* from) {
  if constexpr (kBytes == 16) return load(from);
  else if constexpr (kBytes == 8) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  else {
    static_assert(kBytes == 12);
    std::int32_t last;
    std::memcpy(&last, from + 8, sizeof last);
    return _mm_insert_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)), last, 2);
  }
}

// Instructions multiply unsigned bytes: twice the values of e2m1 come out so much larger.
constexpr int kMoreThanE2m1 = 12;

// c: [Group / 16]
template <Codes codes, int Group>
LAPIDARY_INLINE void load_codes(const std::uint8_t* group, __m128i* c) {
  if constexpr (codes == Codes::e2m1) {
    const __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0), fifteen = _mm_set1_epi8(15);
    const __m128i bytes = load_first<Group / 2>(group);
    const __m128i low = _mm_and_si128(bytes, fifteen), high = _mm_and_si128(_mm_srli_epi16(bytes, 4), fifteen);
    c[0] = _mm_shuffle_epi8(values, _mm_unpacklo_epi8(low, high));
    if constexpr (Group == 32) c[1] = _mm_shuffle_epi8(values, _mm_unpackhi_epi8(low, high));
  } else {
    constexpr int kBits = bits_of(codes);
    const __m128i mask = _mm_set1_epi16((1 << kBits) - 1);
    for_each_sixteen<Group>([&]<int Index>() __attribute__((always_inline)) {
      using Place = Sixteen<codes, Group, Index>;
      // There is no shift of 16-bit numbers by different amounts: a product moves each pair up to the highest bits.
      static constexpr auto kFactors = [] {
        std::array<std::int16_t, 8> factors{};
        for (int i = 0; i < 8; ++i) factors[i] = static_cast<std::int16_t>(1 << (16 - 2 * bits_of(codes) - Place::pairs.offsets[i]));
        return factors;
      }();
      const __m128i bytes = _mm_shuffle_epi8(load_first<Place::kBytes>(group + Place::kFirst), load(Place::pairs.bytes.data()));
      const __m128i pairs = _mm_mullo_epi16(bytes, load(kFactors.data()));
      const __m128i first = _mm_and_si128(_mm_srli_epi16(pairs, 16 - 2 * kBits), mask);
      c[Index] = _mm_or_si128(first, _mm_slli_epi16(_mm_srli_epi16(pairs, 16 - kBits), 8));
    });
  }
}

}  // namespace
}  // namespace lapidary::cpu
