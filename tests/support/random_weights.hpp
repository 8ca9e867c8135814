// Random matrices of any storage, laid out like tensors in a mapped file: at odd addresses, and ending where their
// allocation ends, so that the address sanitizer sees every byte read too much.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "link/weight.hpp"
#include "support/random.hpp"

namespace lapidary::test {

inline std::vector<Storage> plain_storages() {
  return {{Encoding::plain, DType::bf16, 16, 0},
          {Encoding::plain, DType::f16, 16, 0},
          {Encoding::plain, DType::f32, 32, 0}};
}

// Every storage a checkpoint may use.
inline std::vector<Storage> all_storages() {
  std::vector<Storage> all = plain_storages();
  for (const DType type : {DType::bf16, DType::f16, DType::f32})
    for (const int bits : {2, 3, 4, 5, 6, 8})
      for (const int group : {32, 64, 128})
        all.push_back({Encoding::affine, type, static_cast<std::uint8_t>(bits), static_cast<std::uint8_t>(group)});
  all.push_back({Encoding::mxfp4, DType::u8, 4, 32});
  all.push_back({Encoding::nvfp4, DType::u8, 4, 16});
  all.push_back({Encoding::mxfp8, DType::u8, 8, 32});
  return all;
}

// For the names of tests: "affine4/64 with bf16 scales".
inline std::string label(const Storage& storage) {
  const char* type = storage.type == DType::bf16 ? "bf16" : storage.type == DType::f16 ? "f16" : "f32";
  switch (storage.encoding) {
    case Encoding::plain: return type;
    case Encoding::affine:
      return "affine" + std::to_string(storage.bits) + "/" + std::to_string(storage.group) + " with " + type +
             " scales";
    case Encoding::mxfp4: return "mxfp4";
    case Encoding::nvfp4: return "nvfp4";
    case Encoding::mxfp8: return "mxfp8";
  }
  return "?";
}

// Can a row of `cols` values be stored so?
inline bool fits(const Storage& storage, int cols) { return storage.group == 0 || cols % storage.group == 0; }

// The code of a float format (sign, exponent, mantissa) for x, rounded towards zero.
inline std::uint32_t float_code(double x, int exponent_bits, int mantissa_bits) {
  if (x == 0.0) return 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(x), &exponent);  // [1/2, 1)
  exponent += bias - 1;
  const double mantissa = exponent > 0 ? 2 * fraction - 1 : std::ldexp(std::abs(x), bias - 1);
  const auto code = static_cast<std::uint32_t>(std::ldexp(mantissa, mantissa_bits)) |
                    static_cast<std::uint32_t>(exponent > 0 ? exponent : 0) << mantissa_bits;
  return code | (x < 0 ? 1u << (exponent_bits + mantissa_bits) : 0u);
}

// Bytes with an odd address whose last byte is the last of its allocation.
class OddBytes {
 public:
  void append(std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) store_.push_back(static_cast<std::byte>(value >> 8 * i));
  }
  void append_number(double x, DType type) {
    if (type == DType::bf16) append(float_code(x, 8, 7), 2);
    if (type == DType::f16) append(float_code(x, 5, 10), 2);
    if (type == DType::f32) append(float_code(x, 8, 23), 4);
  }
  void shrink() { store_.shrink_to_fit(); }
  std::byte* data() { return store_.data() + 1; }
  const std::byte* data() const { return store_.data() + 1; }

 private:
  std::vector<std::byte> store_ = std::vector<std::byte>(1);  // operator new aligns its first byte
};

class RandomMatrix {
 public:
  // experts 0 = one matrix
  RandomMatrix(Random& random, const Storage& storage, int rows, int cols, int experts = 0)
      : storage_(storage), experts_(experts), rows_(rows), cols_(cols) {
    for (int row = 0; row < rows * (experts ? experts : 1); ++row) append_row(random);
    values_.shrink();
    scales_.shrink();
    biases_.shrink();
  }

  link::Matrix view() const {
    link::Matrix matrix;
    matrix.storage = storage_;
    matrix.experts = experts_;
    matrix.rows = rows_;
    matrix.cols = cols_;
    matrix.values = values_.data();
    matrix.row_bytes = static_cast<std::size_t>(cols_) * storage_.bits / 8;
    matrix.expert_bytes = experts_ ? matrix.row_bytes * rows_ : 0;
    if (storage_.encoding != Encoding::plain) {
      const std::size_t number_bytes = storage_.type == DType::u8 ? 1 : storage_.type == DType::f32 ? 4 : 2;
      matrix.scales = scales_.data();
      matrix.biases = storage_.encoding == Encoding::affine ? biases_.data() : nullptr;
      matrix.scale_row_bytes = cols_ / storage_.group * number_bytes;
      matrix.scale_expert_bytes = experts_ ? matrix.scale_row_bytes * rows_ : 0;
    }
    return matrix;
  }

  // For tests that need certain codes.
  std::byte* values() { return values_.data(); }
  std::byte* scales() { return scales_.data(); }

 private:
  void append_row(Random& random) {
    if (storage_.encoding == Encoding::plain) {
      for (int col = 0; col < cols_; ++col)  // now and then a tiny one: subnormal in f16
        values_.append_number(random.uniform(-1, 1) * (random.chance(32) ? 1e-5 : 1.0), storage_.type);
      return;
    }
    for (int byte = 0; byte < cols_ * storage_.bits / 8; ++byte) {
      auto code = static_cast<std::uint32_t>(random.below(256));
      if (storage_.encoding == Encoding::mxfp8 && (code & 0x7f) == 0x7f) code ^= 1;  // 0x7f and 0xff are no numbers
      values_.append(code, 1);
    }
    for (int group = 0; group < cols_ / storage_.group; ++group) append_scale(random);
  }

  void append_scale(Random& random) {
    const double sign = random.chance(2) ? -1.0 : 1.0;
    switch (storage_.encoding) {
      case Encoding::affine: {  // values on both sides of zero, as an encoder makes them
        const double scale = sign * std::ldexp(random.uniform(0.5, 1.5), -storage_.bits);
        scales_.append_number(scale, storage_.type);
        biases_.append_number(-scale * std::ldexp(random.uniform(0.25, 0.75), storage_.bits), storage_.type);
        break;
      }
      case Encoding::nvfp4:  // now and then subnormal
        scales_.append(float_code(sign * random.uniform(0.25, 4.0) * (random.chance(16) ? 0x1p-8 : 1.0), 4, 3), 1);
        break;
      default: scales_.append(static_cast<std::uint32_t>(127 - 5 + random.below(8)), 1);
    }
  }

  Storage storage_;
  int experts_, rows_, cols_;
  OddBytes values_, scales_, biases_;
};

}  // namespace lapidary::test
