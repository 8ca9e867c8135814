// Codes out of their bytes on x86, for vectors V of q8_x86.hpp. Each file that includes this is compiled for instructions of its own,
// so nothing here may have a name that the linker sees.
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

// Of a group that begins at this byte of its rows, those of vector v. c: [Group / 16]
template <class V, Codes codes, int Group>
LAPIDARY_INLINE void load_codes(const Streams& streams, int v, int at, typename V::Ints* c) {
  const auto load_rows = [&]<int kBytes>(int first) __attribute__((always_inline)) {
    return V::of_rows(v, [&](int row) __attribute__((always_inline)) { return load_first<kBytes>(streams.at[row] + at + first); });
  };
  if constexpr (codes == Codes::e2m1) {
    const auto values = V::in_all_lanes(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0)), fifteen = V::all_bytes(15);
    const auto bytes = load_rows.template operator()<Group / 2>(0);
    const auto low = bytes & fifteen, high = V::template words_right<4>(bytes) & fifteen;
    c[0] = V::bytes_at(values, V::zip_lower(low, high));
    if constexpr (Group == 32) c[1] = V::bytes_at(values, V::zip_upper(low, high));
  } else {
    constexpr int kBits = bits_of(codes);
    const auto mask = V::all_words((1 << kBits) - 1);
    for_each_sixteen<Group>([&]<int Index>() __attribute__((always_inline)) {
      using Place = Sixteen<codes, Group, Index>;
      // There is no shift of 16-bit numbers by different amounts: a product moves each pair up to the highest bits.
      static constexpr auto kFactors = [] {
        std::array<std::int16_t, 8> factors{};
        for (int i = 0; i < 8; ++i) factors[i] = static_cast<std::int16_t>(1 << (16 - 2 * bits_of(codes) - Place::pairs.offsets[i]));
        return factors;
      }();
      const auto bytes = load_rows.template operator()<Place::kBytes>(Place::kFirst);
      const auto spread = V::bytes_at(bytes, V::in_all_lanes(load(Place::pairs.bytes.data())));
      const auto pairs = V::times_words(spread, V::in_all_lanes(load(kFactors.data())));
      const auto first = V::template words_right<16 - 2 * kBits>(pairs) & mask;
      c[Index] = first | V::template words_left<8>(V::template words_right<16 - kBits>(pairs));
    });
  }
}

}  // namespace
}  // namespace lapidary::cpu
