// The K/V cache of one layer for all session slots, as kernels address it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lapidary::link {

// [session slot][kv head][ring slot][head_dim], K and V apart. Position p lies in ring slot p % capacity; the capacity is a
// multiple of the attention tile, so a tile of positions is one run of ring slots.
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

}  // namespace lapidary::link
