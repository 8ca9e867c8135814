#include "cpu/dequant.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>

#include "checkpoint/bf16.hpp"
#include "cpu/math.hpp"
#include "cpu/weave.hpp"

namespace lapidary::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "weights are read as little-endian numbers");

template <class T>
T read(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

float from_f16(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffu;
  // Moving the fields into place leaves the exponent 112 too low; the product is exact, also for subnormal numbers.
  const float finite = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const std::uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;  // infinity, NaN
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(finite) | special | sign);
}

// 2^(code - 127); code 0 is 2^-127.
float from_e8m0(std::uint8_t code) {
  return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<std::uint32_t>(code) << 23);
}

constexpr std::array<float, 16> kE2m1{0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

constexpr std::array<float, 256> make_e4m3() {
  std::array<float, 256> table{};
  for (int code = 0; code < 128; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    float value = exponent == 0 ? static_cast<float>(mantissa) : static_cast<float>(8 + mantissa);
    for (int e = std::max(exponent, 1); e < 10; ++e) value *= 0.5f;
    for (int e = 10; e < exponent; ++e) value *= 2.0f;
    if (code == 127) value = std::numeric_limits<float>::quiet_NaN();
    table[code] = value;
    table[code + 128] = -value;
  }
  return table;
}
constexpr std::array<float, 256> kE4m3 = make_e4m3();

// A scale or bias of an affine encoding.
float read_number(DType type, const std::byte* from, std::size_t index) {
  switch (type) {
    case DType::bf16: return from_bf16(read<std::uint16_t>(from, index));
    case DType::f16: return from_f16(read<std::uint16_t>(from, index));
    default: assert(type == DType::f32); return read<float>(from, index);
  }
}

void plain(DType type, const std::byte* from, int count, float* __restrict out) {
  switch (type) {
    case DType::bf16:
      for (int i = 0; i < count; ++i) out[i] = from_bf16(read<std::uint16_t>(from, i));
      return;
    case DType::f16:
      for (int i = 0; i < count; ++i) out[i] = from_f16(read<std::uint16_t>(from, i));
      return;
    default:
      assert(type == DType::f32);
      std::memcpy(out, from, count * sizeof(float));
  }
}

// out[i] = decode(code i) for codes of 4 or 8 bits, least significant first.
template <int Bits, class Decode>
void unpack(const std::byte* from, int count, float* __restrict out, Decode decode) {
  if constexpr (Bits == 8) {
    for (int i = 0; i < count; ++i) out[i] = decode(read<std::uint8_t>(from, i));
  } else {
    for (int i = 0; i < count / 2; ++i) {
      const auto pair = read<std::uint8_t>(from, i);
      out[2 * i] = decode(static_cast<std::uint8_t>(pair & 15u));
      out[2 * i + 1] = decode(static_cast<std::uint8_t>(pair >> 4));
    }
  }
}

// w = scale * code + bias; the product is exact with 16-bit scales, so the sum is the only rounding.
struct Affine {
  float scale, bias;

  // A code below the upper half of 2^23 is 2^23 + code: converting integers takes processors four times as long.
  void four(Halves codes_in_words, float* out) const {
    const Floats codes = std::bit_cast<Floats>(codes_in_words) - 0x1p23f;
    for (int i = 0; i < 4; ++i) out[i] = fused(scale, codes[i], bias);
  }
  void eight(Bytes codes_in_halves, float* out) const {
    const auto halves = std::bit_cast<Halves>(codes_in_halves), upper = Halves{} + 0x4b00;
    four(weave_low(halves, upper), out);
    four(weave_high(halves, upper), out + 4);
  }
  void sixteen(Bytes codes, float* out) const {
    eight(weave_low(codes, Bytes{}), out);
    eight(weave_high(codes, Bytes{}), out + 8);
  }
};

// Eight codes of Bits bits as eight bytes: the upper half of them moves up, then that of each half, then that of each pair.
template <int Bits>
std::uint64_t spread(std::uint64_t codes) {
  constexpr std::uint64_t kFour = (std::uint64_t{1} << 4 * Bits) - 1;
  constexpr std::uint64_t kTwo = ((1u << 2 * Bits) - 1u) * 0x0000000100000001u;
  constexpr std::uint64_t kOne = ((1u << Bits) - 1u) * 0x0001000100010001u;
  codes = (codes & kFour) | (codes << (32 - 4 * Bits) & kFour << 32);
  codes = (codes & kTwo) | (codes << (16 - 2 * Bits) & kTwo << 16);
  return (codes & kOne) | (codes << (8 - Bits) & kOne << 8);
}

template <int Bits>
void affine_group(const std::byte* from, int count, Affine affine, float* __restrict out) {
  int i = 0;
  if constexpr (Bits == 8) {
    for (; i + 16 <= count; i += 16) affine.sixteen(read_vector<Bytes>(from + i), out + i);
  } else if constexpr (Bits == 4) {
    for (; i + 32 <= count; i += 32) {
      const auto pairs = read_vector<Bytes>(from + i / 2);
      const Bytes even = pairs & 15, odd = pairs >> 4;
      affine.sixteen(weave_low(even, odd), out + i);
      affine.sixteen(weave_high(even, odd), out + i + 16);
    }
  }
  for (; i < count; i += 8) {
    std::uint64_t codes = 0;
    std::memcpy(&codes, from + i / 8 * Bits, Bits);
    if constexpr (Bits < 8) codes = spread<Bits>(codes);
    const std::uint64_t both[2] = {codes, 0};
    affine.eight(weave_low(std::bit_cast<Bytes>(both), Bytes{}), out + i);
  }
}

// The packed elements begin..end of a row.
struct Packed {
  const Storage& storage;
  const std::byte* values;
  const std::byte* scales;
  const std::byte* biases;  // affine only
  int begin, end;

  // Calls decode(from, number of the group, count, to) for the elements of each group.
  template <class Decode>
  void for_each_group(float* out, Decode decode) const {
    for (int i = begin; i < end;) {
      const int group = i / storage.group;
      const int stop = std::min(end, (group + 1) * storage.group);
      decode(values + i / 8 * storage.bits, static_cast<std::size_t>(group), stop - i, out + (i - begin));
      i = stop;
    }
  }
};

template <int Bits>
void affine(const Packed& row, float* out) {
  row.for_each_group(out, [&](const std::byte* from, std::size_t group, int count, float* to) {
    const Affine number{read_number(row.storage.type, row.scales, group), read_number(row.storage.type, row.biases, group)};
    affine_group<Bits>(from, count, number, to);
  });
}

void unpack_row(const Packed& row, float* out) {
  switch (row.storage.encoding) {
    case Encoding::affine:
      switch (row.storage.bits) {
        case 2: return affine<2>(row, out);
        case 3: return affine<3>(row, out);
        case 4: return affine<4>(row, out);
        case 5: return affine<5>(row, out);
        case 6: return affine<6>(row, out);
        default: assert(row.storage.bits == 8); return affine<8>(row, out);
      }
    case Encoding::mxfp4:
      return row.for_each_group(out, [&](const std::byte* from, std::size_t group, int count, float* to) {
        const float scale = from_e8m0(read<std::uint8_t>(row.scales, group));
        unpack<4>(from, count, to, [=](std::uint8_t code) { return kE2m1[code] * scale; });
      });
    case Encoding::nvfp4:
      return row.for_each_group(out, [&](const std::byte* from, std::size_t group, int count, float* to) {
        const float scale = kE4m3[read<std::uint8_t>(row.scales, group)];
        unpack<4>(from, count, to, [=](std::uint8_t code) { return kE2m1[code] * scale; });
      });
    case Encoding::mxfp8:
      return row.for_each_group(out, [&](const std::byte* from, std::size_t group, int count, float* to) {
        const float scale = from_e8m0(read<std::uint8_t>(row.scales, group));
        unpack<8>(from, count, to, [=](std::uint8_t code) { return kE4m3[code] * scale; });
      });
    case Encoding::plain: assert(false);
  }
}

}  // namespace

void dequantise(const link::Matrix& matrix, int expert, int row, int begin, int count, float* out) {
  assert(row >= 0 && row < matrix.rows && begin >= 0 && begin + count <= matrix.cols);
  const auto e = static_cast<std::size_t>(expert), r = static_cast<std::size_t>(row);
  const std::byte* values = matrix.values + e * matrix.expert_bytes + r * matrix.row_bytes;
  const Storage& storage = matrix.storage;
  if (storage.encoding == Encoding::plain) {
    plain(storage.type, values + begin * bytes_of(storage.type), count, out);
    return;
  }
  assert(begin % 8 == 0 && count % 8 == 0);
  const std::size_t scale_row = e * matrix.scale_expert_bytes + r * matrix.scale_row_bytes;
  const std::byte* biases = matrix.biases ? matrix.biases + scale_row : nullptr;
  unpack_row({storage, values, matrix.scales + scale_row, biases, begin, begin + count}, out);
}

}  // namespace lapidary::cpu
