// How the numbers of a matrix lie in a file and in memory.
#pragma once

#include <cstdint>
#include <cstddef>
#include <string>
#include <string_view>

namespace lapidary::graph {

enum class DType : std::uint8_t { boolean, u8, i8, f8_e4m3, f8_e5m2, i16, u16, f16, bf16, i32, u32, f32, i64, u64, f64 };

std::string_view name_of(DType type);      // as safetensors spells it: "BF16"
std::size_t bytes_of(DType type);

enum class Encoding : std::uint8_t { plain, affine, mxfp4, nvfp4, mxfp8 };

// A plain matrix is an array of `type`. A packed one is a bit stream of `bits` per value and one scale (affine: scale and
// bias, both of `type`) per `group` consecutive inputs of a row.
struct Storage {
  Encoding encoding = Encoding::plain;
  DType type = DType::bf16;  // plain: of the values; affine: of scales and biases; fp modes: u8
  std::uint8_t bits = 16;
  std::uint8_t group = 0;    // 0 = plain

  bool operator==(const Storage&) const = default;
};

std::string name_of(const Storage& storage);  // "bf16", "affine4/64", "mxfp4/32"

}  // namespace lapidary::graph
