// Rows of weights from the bytes of the file to float32: what dequantise does, for every file that is compiled for instructions of its
// own. So nothing here may have a name that the linker sees.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstring>

#include "numeric/affine.hpp"
#include "numeric/dequant.hpp"
#include "numeric/small_floats.hpp"

namespace lapidary::numeric {
namespace {

using graph::DType;
using graph::Encoding;

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

// The packed elements begin..end of a row.
struct Part {
  const StoredRow& row;
  int begin, end;

  // Calls decode(from, number of the group, count, to) for the elements of each group.
  template <class Decode>
  void for_each_group(float* out, Decode decode) const {
    const int group_size = row.storage.group;
    for (int i = begin; i < end;) {
      const int group = i / group_size;
      const int stop = std::min(end, (group + 1) * group_size);
      decode(row.values + i / 8 * row.storage.bits, static_cast<std::size_t>(group), stop - i, out + (i - begin));
      i = stop;
    }
  }
};

template <int Bits>
void affine(const Part& part, float* out) {
  const StoredRow& row = part.row;
  part.for_each_group(out, [&](const std::byte* from, std::size_t group, int count, float* to) {
    const Affine number(read_number(row.storage.type, row.scales, group), read_number(row.storage.type, row.biases, group));
    for_each_eight<Bits>(from, count, number, [to](int i, Floats low, Floats high) {
      std::memcpy(to + i, &low, sizeof low);
      std::memcpy(to + i + 4, &high, sizeof high);
    });
  });
}

void unpack_row(const Part& part, float* out) {
  const StoredRow& row = part.row;
  switch (row.storage.encoding) {
    case Encoding::affine:
      switch (row.storage.bits) {
        case 2: return affine<2>(part, out);
        case 3: return affine<3>(part, out);
        case 4: return affine<4>(part, out);
        case 5: return affine<5>(part, out);
        case 6: return affine<6>(part, out);
        default: assert(row.storage.bits == 8); return affine<8>(part, out);
      }
    case Encoding::mxfp4:
      return part.for_each_group(out, [&](const std::byte* from, std::size_t group, int count, float* to) {
        const float scale = from_e8m0(read<std::uint8_t>(row.scales, group));
        unpack<4>(from, count, to, [=](std::uint8_t code) { return kE2m1[code] * scale; });
      });
    case Encoding::nvfp4:
      return part.for_each_group(out, [&](const std::byte* from, std::size_t group, int count, float* to) {
        const float scale = kE4m3[read<std::uint8_t>(row.scales, group)];
        unpack<4>(from, count, to, [=](std::uint8_t code) { return kE2m1[code] * scale; });
      });
    case Encoding::mxfp8:
      return part.for_each_group(out, [&](const std::byte* from, std::size_t group, int count, float* to) {
        const float scale = from_e8m0(read<std::uint8_t>(row.scales, group));
        unpack<8>(from, count, to, [=](std::uint8_t code) { return kE4m3[code] * scale; });
      });
    case Encoding::plain: assert(false);
  }
}

// As dequantise.
void dequantise_row(const StoredRow& row, int begin, int count, float* out) {
  assert(begin >= 0 && begin + count <= row.cols);
  if (row.storage.encoding == Encoding::plain) {
    plain(row.storage.type, row.values + begin * bytes_of(row.storage.type), count, out);
    return;
  }
  assert(begin % 8 == 0 && count % 8 == 0);
  unpack_row({row, begin, begin + count}, out);
}

}  // namespace
}  // namespace lapidary::numeric
