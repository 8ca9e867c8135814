#include "metal/check/random.hpp"

#include <algorithm>

#include "numeric/dequant.hpp"

namespace lapidary::metal::check {
namespace {

// A number of a float format in +-[2^exponent, 2^(exponent + 1)).
std::uint32_t number_code(Random& random, int exponent_bits, int mantissa_bits, int exponent, bool negative) {
  const std::uint32_t biased = static_cast<std::uint32_t>(exponent + (1 << (exponent_bits - 1)) - 1);
  const std::uint32_t sign = negative ? 1u << (exponent_bits + mantissa_bits) : 0u;
  return sign | biased << mantissa_bits | random.below(1u << mantissa_bits);
}

void append(std::vector<std::byte>& bytes, std::uint32_t code, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(code >> 8 * i));
}

void append_number(std::vector<std::byte>& bytes, Random& random, DType type, int exponent, bool negative) {
  const int exponent_bits = type == DType::f16 ? 5 : 8;
  const int mantissa_bits = type == DType::f16 ? 10 : type == DType::bf16 ? 7 : 23;
  append(bytes, number_code(random, exponent_bits, mantissa_bits, exponent, negative), bytes_of(type));
}

}  // namespace

std::uint64_t Random::bits() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

std::vector<float> Random::floats(int count, float low, float high) {
  std::vector<float> all;
  for (int i = 0; i < count; ++i) all.push_back(uniform(low, high));
  return all;
}

std::vector<std::vector<float>> Random::rows(int count, int width, float low, float high) {
  std::vector<std::vector<float>> all;
  for (int i = 0; i < count; ++i) all.push_back(floats(width, low, high));
  return all;
}

std::vector<std::int32_t> Random::different(int count, int limit) {
  std::vector<std::int32_t> all;
  for (int i = 0; i < limit; ++i) all.insert(all.begin() + below(static_cast<std::uint32_t>(i) + 1), i);
  all.resize(static_cast<std::size_t>(count));
  return all;
}

RandomMatrix::RandomMatrix(Random& random, const Storage& storage, int rows, int cols, int experts)
    : storage_(storage), rows_(rows), cols_(cols), experts_(experts) {
  for (int row = 0; row < rows * std::max(1, experts); ++row) {
    if (storage.encoding == Encoding::plain) {
      for (int col = 0; col < cols; ++col)
        append_number(values_, random, storage.type, -1 - static_cast<int>(random.below(6)), random.below(2));
      continue;
    }
    for (int byte = 0; byte < cols * storage.bits / 8; ++byte) {
      std::uint32_t code = random.below(256);
      if (storage.encoding == Encoding::mxfp8 && (code & 0x7f) == 0x7f) code ^= 1;  // 0x7f and 0xff are no numbers
      append(values_, code, 1);
    }
    for (int group = 0; group < cols / storage.group; ++group) append_scale(random);
  }
}

void RandomMatrix::append_scale(Random& random) {
  const bool negative = random.below(2);
  if (storage_.encoding == Encoding::affine) {  // values on both sides of zero, as an encoder makes them
    append_number(scales_, random, storage_.type, -storage_.bits, negative);
    append_number(biases_, random, storage_.type, -1, !negative);
  } else if (storage_.encoding == Encoding::nvfp4) {
    append(scales_, number_code(random, 4, 3, static_cast<int>(random.below(4)) - 2, negative), 1);
  } else {
    append(scales_, 122 + random.below(8), 1);
  }
}

link::Matrix RandomMatrix::view() const {
  link::Matrix matrix{.storage = storage_, .experts = experts_, .rows = rows_, .cols = cols_, .values = values_.data(), .clip = clip_};
  matrix.row_bytes = static_cast<std::size_t>(cols_ * storage_.bits / 8);
  matrix.expert_bytes = matrix.row_bytes * static_cast<std::size_t>(rows_);
  if (storage_.encoding == Encoding::plain) return matrix;
  matrix.scales = scales_.data();
  matrix.biases = biases_.empty() ? nullptr : biases_.data();
  matrix.scale_row_bytes = static_cast<std::size_t>(cols_ / storage_.group) * bytes_of(storage_.type);
  matrix.scale_expert_bytes = matrix.scale_row_bytes * static_cast<std::size_t>(rows_);
  return matrix;
}

std::vector<double> RandomMatrix::row(int row, int expert) const {
  std::vector<float> values(static_cast<std::size_t>(cols_));
  numeric::dequantise(view().row(expert, row), 0, cols_, values.data());
  return {values.begin(), values.end()};
}

}  // namespace lapidary::metal::check
