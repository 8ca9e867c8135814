// K/V: how they are stored, and the cache of one layer for all session slots, as kernels address it. Position p lies in ring slot
// p % capacity; the capacity is a multiple of the attention tile, so a tile of positions is one run of ring slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "graph/shape.hpp"
#include "link/numeric.hpp"

namespace lapidary::link {

// One head at one position is the unit: nothing in a format spans positions, or the bytes of a token would depend on its neighbours.
struct KvFormat {
  std::string_view name;
  std::size_t element_bytes = 0;

  std::size_t head_bytes(std::int32_t head_dim) const { return static_cast<std::size_t>(head_dim) * element_bytes; }
  // K, or V, of all heads of a layer.
  std::size_t position_bytes(const graph::LayerShape& layer) const {
    return static_cast<std::size_t>(layer.kv_heads) * head_bytes(layer.head_dim);
  }
  // A head whose elements lie in order, to float32. head: [head_bytes], out: [head_dim]
  void widen(const std::byte* head, std::span<float> out) const;

  bool operator==(const KvFormat& other) const { return name == other.name; }
};
inline constexpr KvFormat kKvF32{"f32", 4}, kKvBf16{"bf16", 2};

constexpr const KvFormat& kv_format_of(Numeric numeric) { return numeric == Numeric::fast ? kKvBf16 : kKvF32; }

// [session slot][kv head][ring slot][head_dim], K and V apart.
struct KvCache {
  float* k = nullptr;
  float* v = nullptr;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t capacity = 0;        // positions
  std::size_t session_stride = 0;   // floats from one session slot to the next

  std::size_t index(std::int32_t slot, std::int32_t head, std::int32_t position) const {
    const auto ring = static_cast<std::size_t>(position % capacity);
    return slot * session_stride + (static_cast<std::size_t>(head) * capacity + ring) * head_dim;
  }
};

// bfloat16, in the order in which products of small matrices take them. [session slot][kv head], then of K blocks of 8 ring slots,
// [head_dim / 4][4][2 slots][4]; of V blocks of 64, [head_dim / 8][16][4][2][4 slots].
struct KvCacheBf16 {
  std::uint16_t* k = nullptr;
  std::uint16_t* v = nullptr;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t capacity = 0;
  std::size_t session_stride = 0;   // elements

  static constexpr int kKeys = 8, kValues = 64;  // positions of a block

  // The first element of the head's block that holds the position, which must begin it.
  [[gnu::always_inline]] std::size_t block(std::int32_t slot, std::int32_t head, std::int32_t position) const {
    const auto ring = static_cast<std::size_t>(position % capacity);
    return slot * session_stride + (static_cast<std::size_t>(head) * capacity + ring) * head_dim;
  }
  // How far element d of a position lies from its first.
  static std::size_t key_offset(std::int32_t d) { return static_cast<std::size_t>(d / 4 * 4 * kKeys + d % 4); }
  static std::size_t value_offset(std::int32_t d) { return static_cast<std::size_t>(d / 8 * 8 * kValues + d % 8 * 4); }
  std::size_t key_index(std::int32_t slot, std::int32_t head, std::int32_t position, std::int32_t d) const {
    const int at = position % kKeys;
    return block(slot, head, position - at) + key_offset(d) + static_cast<std::size_t>(at * 4);
  }
  std::size_t value_index(std::int32_t slot, std::int32_t head, std::int32_t position, std::int32_t d) const {
    const int at = position % kValues;
    return block(slot, head, position - at) + value_offset(d) + static_cast<std::size_t>(at / 4 * 32 + at % 4);
  }
};

}  // namespace lapidary::link
