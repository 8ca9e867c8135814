#include "cpu/dequant.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "checkpoint/bf16.hpp"
#include "cpu/math.hpp"
#include "cpu/small_floats.hpp"

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

// out[i] = decode(code i) for codes of Bits bits, least significant first.
template <int Bits, class Decode>
void unpack(const std::byte* from, int count, float* __restrict out, Decode decode) {
  if constexpr (Bits == 8) {
    for (int i = 0; i < count; ++i) out[i] = decode(read<std::uint8_t>(from, i));
  } else if constexpr (Bits == 4) {
    for (int i = 0; i < count / 2; ++i) {
      const auto pair = read<std::uint8_t>(from, i);
      out[2 * i] = decode(static_cast<std::uint8_t>(pair & 15u));
      out[2 * i + 1] = decode(static_cast<std::uint8_t>(pair >> 4));
    }
  } else {
    // Eight codes fill Bits bytes.
    for (int i = 0; i < count; i += 8, from += Bits) {
      std::uint64_t codes = 0;
      std::memcpy(&codes, from, Bits);
      for (int j = 0; j < 8; ++j) {
        out[i + j] = decode(static_cast<std::uint8_t>((codes >> (j * Bits)) & ((1u << Bits) - 1u)));
      }
    }
  }
}

// w = scale * code + bias; the product is exact with 16-bit scales, so the sum is the only rounding.
template <int Bits>
void affine_group(const std::byte* from, int count, float scale, float bias, float* __restrict out) {
  unpack<Bits>(from, count, out, [=](std::uint8_t code) { return fused(scale, static_cast<float>(code), bias); });
}

void group_of(const Storage& storage, const std::byte* from, const std::byte* scales, const std::byte* biases,
              std::size_t group, int count, float* out) {
  switch (storage.encoding) {
    case Encoding::affine: {
      const float scale = read_number(storage.type, scales, group);
      const float bias = read_number(storage.type, biases, group);
      switch (storage.bits) {
        case 2: return affine_group<2>(from, count, scale, bias, out);
        case 3: return affine_group<3>(from, count, scale, bias, out);
        case 4: return affine_group<4>(from, count, scale, bias, out);
        case 5: return affine_group<5>(from, count, scale, bias, out);
        case 6: return affine_group<6>(from, count, scale, bias, out);
        default: assert(storage.bits == 8); return affine_group<8>(from, count, scale, bias, out);
      }
    }
    case Encoding::mxfp4: {
      const float scale = from_e8m0(read<std::uint8_t>(scales, group));
      return unpack<4>(from, count, out, [=](std::uint8_t code) { return kE2m1[code] * scale; });
    }
    case Encoding::nvfp4: {
      const float scale = kE4m3[read<std::uint8_t>(scales, group)];
      return unpack<4>(from, count, out, [=](std::uint8_t code) { return kE2m1[code] * scale; });
    }
    case Encoding::mxfp8: {
      const float scale = from_e8m0(read<std::uint8_t>(scales, group));
      return unpack<8>(from, count, out, [=](std::uint8_t code) { return kE4m3[code] * scale; });
    }
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
  const std::byte* scales = matrix.scales + scale_row;
  const std::byte* biases = matrix.biases ? matrix.biases + scale_row : nullptr;
  const int end = begin + count;
  for (int i = begin; i < end;) {
    const int group = i / storage.group;
    const int stop = std::min(end, (group + 1) * storage.group);
    const std::byte* from = values + i / 8 * storage.bits;
    group_of(storage, from, scales, biases, group, stop - i, out + (i - begin));
    i = stop;
  }
}

}  // namespace lapidary::cpu
