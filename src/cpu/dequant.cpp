#include "cpu/dequant.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "cpu/affine.hpp"
#include "cpu/small_floats.hpp"

namespace lapidary::cpu {
namespace {

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
    const Affine number(read_number(row.storage.type, row.scales, group), read_number(row.storage.type, row.biases, group));
    for_each_eight<Bits>(from, count, number, [to](int i, Floats low, Floats high) {
      std::memcpy(to + i, &low, sizeof low);
      std::memcpy(to + i + 4, &high, sizeof high);
    });
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
