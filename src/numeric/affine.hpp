// Weights of affine encodings from codes to float32, eight at a time, for whoever stores or multiplies them.
#pragma once

#include <bit>
#include <cassert>
#include <cstring>

#include "graph/storage.hpp"
#include "numeric/bf16.hpp"
#include "numeric/math.hpp"
#include "numeric/weave.hpp"

namespace lapidary::numeric {

static_assert(std::endian::native == std::endian::little, "weights are read as little-endian numbers");

template <class T>
[[gnu::always_inline]] inline T read(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

[[gnu::always_inline]] inline float from_f16(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffu;
  // Moving the fields into place leaves the exponent 112 too low; the product is exact, also for subnormal numbers.
  const float finite = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const std::uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;  // infinity, NaN
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(finite) | special | sign);
}

// A scale or bias of an affine encoding.
[[gnu::always_inline]] inline float read_number(graph::DType type, const std::byte* from, std::size_t index) {
  using graph::DType;
  switch (type) {
    case DType::bf16: return from_bf16(read<std::uint16_t>(from, index));
    case DType::f16: return from_f16(read<std::uint16_t>(from, index));
    default: assert(type == DType::f32); return read<float>(from, index);
  }
}

// w = scale * code + bias; the product is exact with 16-bit scales, so the sum is the only rounding.
class Affine {
 public:
  [[gnu::always_inline]] Affine(float scale, float bias) : scale_(Floats{} + scale), bias_(Floats{} + bias) {}

  template <class Take>
  void eight(Bytes codes_in_halves, int i, Take take) const {
    const auto halves = std::bit_cast<Halves>(codes_in_halves), upper = Halves{} + 0x4b00;
    take(i, four(weave_low(halves, upper)), four(weave_high(halves, upper)));
  }
  template <class Take>
  void sixteen(Bytes codes, int i, Take take) const {
    eight(weave_low(codes, Bytes{}), i, take);
    eight(weave_high(codes, Bytes{}), i + 8, take);
  }

 private:
  // A code below the upper half of 2^23 is 2^23 + code: converting integers takes processors four times as long.
  [[gnu::always_inline]] Floats four(Halves codes_in_words) const {
    const Floats codes = std::bit_cast<Floats>(codes_in_words) - 0x1p23f;
    return fused(scale_, codes, bias_);
  }

  Floats scale_;
  // Volatile, so that it is loaded where an fma will overwrite it: a copy of a register would take a pipe that computes.
  volatile Floats bias_;
};

// Eight codes of Bits bits as eight bytes: the upper half of them moves up, then that of each half, then that of each pair.
template <int Bits>
[[gnu::always_inline]] inline std::uint64_t spread(std::uint64_t codes) {
  constexpr std::uint64_t kFour = (std::uint64_t{1} << 4 * Bits) - 1;
  constexpr std::uint64_t kTwo = ((1u << 2 * Bits) - 1u) * 0x0000000100000001u;
  constexpr std::uint64_t kOne = ((1u << Bits) - 1u) * 0x0001000100010001u;
  codes = (codes & kFour) | (codes << (32 - 4 * Bits) & kFour << 32);
  codes = (codes & kTwo) | (codes << (16 - 2 * Bits) & kTwo << 16);
  return (codes & kOne) | (codes << (8 - Bits) & kOne << 8);
}

// Calls take(i, weights i..i + 3, weights i + 4..i + 7) for a part of a group that begins at `from`. count: a multiple of 8
template <int Bits, class Take>
inline void for_each_eight(const std::byte* from, int count, const Affine& affine, Take take) {
  int i = 0;
  if constexpr (Bits == 8) {
    for (; i + 16 <= count; i += 16) affine.sixteen(read_vector<Bytes>(from + i), i, take);
  } else if constexpr (Bits == 4) {
    for (; i + 32 <= count; i += 32) {
      const auto pairs = read_vector<Bytes>(from + i / 2);
      const Bytes even = pairs & 15, odd = pairs >> 4;
      affine.sixteen(weave_low(even, odd), i, take);
      affine.sixteen(weave_high(even, odd), i + 16, take);
    }
  }
  for (; i < count; i += 8) {
    std::uint64_t codes = 0;
    std::memcpy(&codes, from + i / 8 * Bits, Bits);
    if constexpr (Bits < 8) codes = spread<Bits>(codes);
    const std::uint64_t both[2] = {codes, 0};
    affine.eight(weave_low(std::bit_cast<Bytes>(both), Bytes{}), i, take);
  }
}

}  // namespace lapidary::numeric
