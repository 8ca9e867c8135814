// K/V: how they are stored, and the cache of one layer for all session slots, as kernels address it. Position p lies in ring slot
// p % capacity; the capacity is a multiple of the attention tile, so a tile of positions is one run of ring slots.
//
// One head at one position is the unit: nothing in a format spans positions, or the bytes of a token would depend on its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "graph/graph.hpp"
#include "link/numeric.hpp"

namespace lapidary::link {

// How components are stored: as numbers, or as codes with a scale (numeric/kv_codes.hpp).
enum class KvCode : std::uint8_t { f32, bf16, q8, q4 };
[[gnu::always_inline]] constexpr bool is_coded(KvCode code) { return code >= KvCode::q8; }

// Of so many components of one head at one position, the scale included.
[[gnu::always_inline]] constexpr std::size_t kv_bytes(KvCode code, std::int32_t size) {
  const auto n = static_cast<std::size_t>(size);
  switch (code) {
    case KvCode::f32: return 4 * n;
    case KvCode::bf16: return 2 * n;
    case KvCode::q8: return n + sizeof(float);
    case KvCode::q4: return n / 2 + sizeof(float);
  }
  return 0;
}

// What a model's K/V are stored as, by the name that --kv takes. Layers that keep a window only have numbers in any case.
struct KvFormat {
  std::string_view name;
  KvCode keys{}, values{};

  bool operator==(const KvFormat& other) const { return name == other.name; }
};
inline constexpr KvFormat kKvF32{"f32", KvCode::f32, KvCode::f32}, kKvBf16{"bf16", KvCode::bf16, KvCode::bf16},
    kKvQ8{"q8", KvCode::q8, KvCode::q8}, kKvQ4{"q4", KvCode::q8, KvCode::q4};
inline constexpr const KvFormat* kKvFormats[] = {&kKvF32, &kKvBf16, &kKvQ8, &kKvQ4};

// Of numbers: what is used unless codes are asked for, and what windows have.
constexpr const KvFormat& kv_format_of(Numeric numeric) { return numeric == Numeric::fast ? kKvBf16 : kKvF32; }

// What a layer stores of each head at each position: two lists of components, its keys and its values. Where values are the keys before
// norm and rotation, and codes are stored, most of a key is its value times the norm: `keys` has only the components that turn.
struct KvStores {
  KvCode key_code{}, value_code{};
  std::int32_t keys = 0, values = 0;  // components
  bool one = false;                   // keys are made from values, all but those that turn

  bool coded() const { return is_coded(value_code); }
  [[gnu::always_inline]] std::size_t key_bytes() const { return kv_bytes(key_code, keys); }
  [[gnu::always_inline]] std::size_t value_bytes() const { return kv_bytes(value_code, values); }
};
// `format`: that of the model, `numbers`: that of its windows.
KvStores kv_stores(const graph::Shape& shape, const graph::LayerShape& layer, const KvFormat& format, const KvFormat& numbers);

// The weight that is the norm of the keys of a layer that owns its K/V.
graph::WeightId key_norm_weight(const graph::Graph& graph, std::int32_t layer);

// The pairs (i, i + head_dim / 2) that rope turns are those with i below this.
std::int32_t turned_pairs(const graph::Shape& shape, const graph::LayerShape& layer);

// Components of a head at a ring slot, which lie in order, to float32. head: where it begins in the store
void widen(KvCode code, const std::byte* head, std::int32_t slot, std::span<float> out);

// K and V of a head at a ring slot, where components lie in order. keys, values: where the head begins in the stores; norm: of the keys,
// where they are made from values. k, v: [head_dim]
void read_kv(const KvStores& stores, const std::byte* keys, const std::byte* values, std::int32_t slot, const float* norm, std::span<float> k,
             std::span<float> v);

// Keys of a head from its values and the components that turn: in key[i], key[i + n/2] for the i below turned.size() / 2.
// values, norm, key: [head_dim]
void make_key(std::span<const float> values, std::span<const float> turned, const float* norm, std::span<float> key);

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
