// Golden tensors of a fixture by name.
#pragma once

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "support/unpack.hpp"

namespace lapidary::test {

// A finite number of 16 bits: g++ 12 has no type for it in C++.
inline float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const auto magnitude = static_cast<float>(exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
  return bits & 0x8000 ? -magnitude : magnitude;
}

class Expected {
 public:
  explicit Expected(const std::string& path) {
    if (path.ends_with(".xz")) {
      bytes_ = unpacked(path);
    } else {
      std::ifstream file(path, std::ios::binary);
      bytes_.assign(std::istreambuf_iterator<char>(file), {});
    }
    tensors_ = parse_safetensors(std::as_bytes(std::span(bytes_)), path);
  }

  bool has(const std::string& name) const { return find(name) != nullptr; }
  std::vector<float> floats(const std::string& name) const { return read<float>(name, DType::f32); }
  std::vector<std::int32_t> ids(const std::string& name) const { return read<std::int32_t>(name, DType::i32); }
  // float16, widened.
  std::vector<float> halves(const std::string& name) const {
    std::vector<float> values;
    for (const std::uint16_t bits : read<std::uint16_t>(name, DType::f16)) values.push_back(from_half(bits));
    return values;
  }
  std::vector<std::uint8_t> bytes(const std::string& name) const {
    const Tensor* tensor = find(name);
    return read<std::uint8_t>(name, tensor ? tensor->type : DType::u8);
  }
  const Tensor* find(const std::string& name) const {
    for (const NamedTensor& tensor : tensors_)
      if (tensor.name == name) return &tensor.tensor;
    return nullptr;
  }

 private:
  template <class T>
  std::vector<T> read(const std::string& name, DType type) const {
    const Tensor* tensor = find(name);
    if (!tensor || tensor->type != type) fail(ErrorKind::missing_tensor, name, "expected in the fixture");
    std::vector<T> values(tensor->bytes.size() / sizeof(T));
    std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
  }

  std::string bytes_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace lapidary::test
