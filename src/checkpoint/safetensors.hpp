// The safetensors container: an 8-byte length, a JSON header, the bytes. All input is hostile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/error.hpp"
#include "checkpoint/storage.hpp"

namespace lapidary {

struct Tensor {
  DType type = DType::u8;
  std::vector<std::int64_t> shape;     // empty = scalar
  std::span<const std::byte> bytes;    // into the mapped file, at any alignment
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Parses a whole file. `where` names it in errors. Every byte of the data section belongs to exactly one tensor, names are
// unique, and the result is sorted by name.
std::vector<NamedTensor> parse_safetensors(std::span<const std::byte> file, std::string_view where);

// Writes a file that parse_safetensors accepts, as a whole or not at all.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors);

}  // namespace lapidary
