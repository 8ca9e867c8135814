// What the bytes of a matrix mean, bit by bit, for every storage a checkpoint may use.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "link/weight.hpp"

namespace lapidary::reference {

using Vector = std::vector<double>;
using Table = std::vector<Vector>;  // [rows][cols]

// `count` bits of a little-endian bit stream, least significant first: those of the bytes that hold them, as one number.
inline std::uint32_t bits_at(const std::byte* bytes, std::size_t first_bit, int count) {
  std::uint64_t value = 0;
  for (std::size_t end = (first_bit + count + 7) / 8; end > first_bit / 8; --end)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[end - 1]);
  return static_cast<std::uint32_t>(value >> (first_bit % 8) & ((std::uint64_t{1} << count) - 1));
}

// sign | exponent | mantissa with the usual bias and subnormals. Finite numbers only.
inline double float_of(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const double mantissa = bits & ((1u << mantissa_bits) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                         : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return bits >> (exponent_bits + mantissa_bits) & 1 ? -magnitude : magnitude;
}

inline double e2m1(std::uint32_t code) { return float_of(code, 2, 1); }
inline double e4m3(std::uint32_t code) { return float_of(code, 4, 3); }
inline double e8m0(std::uint32_t code) { return std::ldexp(1.0, static_cast<int>(code) - 127); }

// Number `index` of an array of bf16, f16 or f32.
inline double number_at(const std::byte* array, std::size_t index, DType type) {
  switch (type) {
    case DType::bf16: return float_of(bits_at(array, index * 16, 16), 8, 7);
    case DType::f16: return float_of(bits_at(array, index * 16, 16), 5, 10);
    case DType::f32: return float_of(bits_at(array, index * 32, 32), 8, 23);
    default: return NAN;
  }
}

// A weight is scaled + bias; only affine storage has a bias.
struct Weight {
  double scaled = 0.0;
  double bias = 0.0;
  double value() const { return scaled + bias; }
  double magnitude() const { return std::abs(scaled) + std::abs(bias); }
};

inline Weight weight_at(const link::Matrix& matrix, int row, int col, int expert = 0) {
  const Storage& storage = matrix.storage;
  const std::byte* values = matrix.values + expert * matrix.expert_bytes + row * matrix.row_bytes;
  if (storage.encoding == Encoding::plain) return {number_at(values, col, storage.type)};

  const std::size_t scale_row = expert * matrix.scale_expert_bytes + row * matrix.scale_row_bytes;
  const std::size_t group = col / storage.group;
  const std::uint32_t code = bits_at(values, static_cast<std::size_t>(col) * storage.bits, storage.bits);
  if (storage.encoding == Encoding::affine)
    return {number_at(matrix.scales + scale_row, group, storage.type) * code,
            number_at(matrix.biases + scale_row, group, storage.type)};

  const std::uint32_t scale = bits_at(matrix.scales + scale_row, group * 8, 8);
  switch (storage.encoding) {
    case Encoding::mxfp4: return {e2m1(code) * e8m0(scale)};
    case Encoding::nvfp4: return {e2m1(code) * e4m3(scale)};
    case Encoding::mxfp8: return {e4m3(code) * e8m0(scale)};
    default: return {NAN};
  }
}

inline Vector dequantise_row(const link::Matrix& matrix, int row, int expert = 0) {
  Vector values;
  for (int col = 0; col < matrix.cols; ++col) values.push_back(weight_at(matrix, row, col, expert).value());
  return values;
}

inline Table dequantise(const link::Matrix& matrix, int expert = 0) {
  Table table;
  for (int row = 0; row < matrix.rows; ++row) table.push_back(dequantise_row(matrix, row, expert));
  return table;
}

// What the rounding errors of a product are proportional to: where scale * code and bias cancel, more than |value|.
inline Table magnitudes(const link::Matrix& matrix, int expert = 0) {
  Table table(matrix.rows);
  for (int row = 0; row < matrix.rows; ++row)
    for (int col = 0; col < matrix.cols; ++col) table[row].push_back(weight_at(matrix, row, col, expert).magnitude());
  return table;
}

}  // namespace lapidary::reference
