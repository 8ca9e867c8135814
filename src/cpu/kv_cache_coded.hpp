// K/V as codes, in the order in which products of bytes take them: the cache of one layer for all session slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/graph.hpp"
#include "link/kv.hpp"

namespace lapidary::cpu {

// [session slot][kv head][tile of 64 ring slots], keys and values apart: codes of the tile, then its scales.
// [8 blocks of 8 slots], then of keys [elements / 8][8 slots][8], of values [elements][8 slots]; of q4 the elements are bytes, which have
// two nibbles each.
struct KvCacheCoded {
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  link::KvStores stores{};
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t capacity = 0;        // positions
  std::size_t session_stride = 0;   // bytes
  const float* norm = nullptr;      // of the layer that owns them, where keys are made from values: k_norm, [head_dim]

  static constexpr int kTile = graph::kTile, kBlock = 8;

  // A tile of one of the stores.
  struct Tile {
    std::byte* data = nullptr;
    std::size_t code_bytes = 0;  // of a position

    [[gnu::always_inline]] std::int8_t* codes() const { return reinterpret_cast<std::int8_t*>(data); }
    [[gnu::always_inline]] float* scales() const { return reinterpret_cast<float*>(data + code_bytes * kTile); }
    [[gnu::always_inline]] std::size_t bytes() const { return (code_bytes + sizeof(float)) * kTile; }
  };
  [[gnu::always_inline]] Tile keys(std::int32_t slot, std::int32_t head, std::int32_t position) const {
    return tile(k, stores.key_bytes(), slot, head, position);
  }
  [[gnu::always_inline]] Tile values(std::int32_t slot, std::int32_t head, std::int32_t position) const {
    return tile(v, stores.value_bytes(), slot, head, position);
  }

  // Where code i of a position lies in its tile of keys, or of values: its byte i, of q4.
  std::size_t key_offset(std::int32_t position, std::int32_t i) const {
    const int at = position % kTile;
    return static_cast<std::size_t>(at / kBlock * kBlock * stores.keys + i / 8 * 64 + at % kBlock * 8 + i % 8);
  }
  std::size_t value_offset(std::int32_t position, std::int32_t i) const {
    const std::size_t at = static_cast<std::size_t>(position % kTile), bytes = stores.value_bytes() - sizeof(float);
    return at / kBlock * kBlock * bytes + static_cast<std::size_t>(i) * kBlock + at % kBlock;
  }

  // One head of one position. key, value: [head_dim]
  void store_key(std::int32_t slot, std::int32_t head, std::int32_t position, const float* key) const;
  void store_value(std::int32_t slot, std::int32_t head, std::int32_t position, const float* value) const;
  // The same as they stand there.
  void read(std::int32_t slot, std::int32_t head, std::int32_t position, std::span<float> key, std::span<float> value) const;

 private:
  [[gnu::always_inline]] Tile tile(std::byte* first, std::size_t position_bytes, std::int32_t slot, std::int32_t head, std::int32_t position) const {
    const auto ring = static_cast<std::size_t>(position % capacity) / kTile * kTile;
    return {first + static_cast<std::size_t>(slot) * session_stride + (static_cast<std::size_t>(head) * capacity + ring) * position_bytes,
            position_bytes - sizeof(float)};
  }
};

}  // namespace lapidary::cpu
