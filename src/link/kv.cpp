#include "link/kv.hpp"

#include <cassert>
#include <cstring>
#include <vector>

#include "numeric/bf16.hpp"
#include "numeric/kv_codes.hpp"

namespace lapidary::link {

std::int32_t turned_pairs(const graph::Shape& shape, const graph::LayerShape& layer) {
  return static_cast<std::int32_t>(shape.rope[static_cast<std::size_t>(layer.kind)].partial * layer.head_dim / 2);
}

graph::WeightId key_norm_weight(const graph::Graph& graph, std::int32_t layer) {
  for (const graph::Step& step : graph.segment(graph::SegmentId::forward).steps)
    if (writes_kv(step) && step.dims->kv_layer == layer) return step.weights[1];
  assert(false && "the layer owns no K/V");
  return graph::kNone;
}

KvStores kv_stores(const graph::Shape& shape, const graph::LayerShape& layer, const KvFormat& format, const KvFormat& numbers) {
  const KvFormat& here = layer.kind == graph::LayerKind::full ? format : numbers;
  KvStores stores{.key_code = here.keys, .value_code = here.values, .keys = layer.head_dim, .values = layer.head_dim};
  const std::int32_t turned = 2 * turned_pairs(shape, layer);
  stores.one = stores.coded() && layer.values_are_keys && numeric::can_be_coded(turned) && turned <= layer.head_dim / 2;
  if (stores.one) stores.keys = turned;
  return stores;
}

void widen(KvCode code, const std::byte* head, std::int32_t slot, std::span<float> out) {
  const auto n = static_cast<std::int32_t>(out.size());
  const std::size_t code_bytes = kv_bytes(code, n) - (is_coded(code) ? sizeof(float) : 0);
  const auto place = static_cast<std::size_t>(slot % graph::kTile);
  const std::byte* tile = head + static_cast<std::size_t>(slot / graph::kTile * graph::kTile) * kv_bytes(code, n);
  const std::byte* from = tile + place * code_bytes;
  float scale = 0.0f;  // behind the codes of the tile
  if (is_coded(code)) std::memcpy(&scale, tile + graph::kTile * code_bytes + place * sizeof scale, sizeof scale);
  switch (code) {
    case KvCode::f32: std::memcpy(out.data(), from, out.size_bytes()); return;
    case KvCode::bf16:
      for (std::size_t i = 0; i < out.size(); ++i) {
        std::uint16_t bits;
        std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
        out[i] = numeric::from_bf16(bits);
      }
      return;
    case KvCode::q8: return numeric::decode_q8(reinterpret_cast<const std::int8_t*>(from), scale, n, out.data());
    case KvCode::q4: return numeric::decode_q4(reinterpret_cast<const std::uint8_t*>(from), scale, n, out.data());
  }
}

void read_kv(const KvStores& stores, const std::byte* keys, const std::byte* values, std::int32_t slot, const float* norm, std::span<float> k,
             std::span<float> v) {
  widen(stores.value_code, values, slot, v);
  if (!stores.one) return widen(stores.key_code, keys, slot, k);
  std::vector<float> turned(static_cast<std::size_t>(stores.keys));
  widen(stores.key_code, keys, slot, turned);
  make_key(v, turned, norm, k);
}

void make_key(std::span<const float> values, std::span<const float> turned, const float* norm, std::span<float> key) {
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = values[i] * norm[i];
  const std::size_t pairs = turned.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    key[i] = turned[i];
    key[i + key.size() / 2] = turned[i + pairs];
  }
}

}  // namespace lapidary::link
