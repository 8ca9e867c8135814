#include "cpu/attention_coded.hpp"

#include <algorithm>
#include <cassert>

#include "numeric/kv_codes.hpp"

namespace lapidary::cpu {

using link::KvCode;

void KvCacheCoded::store_key(std::int32_t slot, std::int32_t head, std::int32_t position, const float* key) const {
  float y[kMaxHeadDim];
  if (stores.one) {
    const int pairs = stores.keys / 2;
    std::copy_n(key, pairs, y);
    std::copy_n(key + head_dim / 2, pairs, y + pairs);
  } else {
    std::copy_n(key, head_dim, y);
  }
  numeric::rotate(y, stores.keys);
  std::int8_t codes[kMaxHeadDim];
  const Tile to = keys(slot, head, position);
  to.scales()[position % kTile] = numeric::encode_q8(y, stores.keys, codes);
  for (int i = 0; i < stores.keys; i += 8) std::copy_n(codes + i, 8, to.codes() + key_offset(position, i));
}

void KvCacheCoded::store_value(std::int32_t slot, std::int32_t head, std::int32_t position, const float* value) const {
  float y[kMaxHeadDim];
  std::copy_n(value, head_dim, y);
  numeric::rotate(y, head_dim);
  std::int8_t codes[kMaxHeadDim];
  const Tile to = values(slot, head, position);
  to.scales()[position % kTile] = stores.value_code == KvCode::q4
                                      ? numeric::encode_q4(y, head_dim, reinterpret_cast<std::uint8_t*>(codes))
                                      : numeric::encode_q8(y, head_dim, codes);
  for (int i = 0; i < static_cast<int>(to.code_bytes); ++i) to.codes()[value_offset(position, i)] = codes[i];
}

void KvCacheCoded::read(std::int32_t slot, std::int32_t head, std::int32_t position, std::span<float> key, std::span<float> value) const {
  std::int8_t codes[kMaxHeadDim];
  const Tile from = values(slot, head, position);
  for (int i = 0; i < static_cast<int>(from.code_bytes); ++i) codes[i] = from.codes()[value_offset(position, i)];
  const float scale = from.scales()[position % kTile];
  if (stores.value_code == KvCode::q4) numeric::decode_q4(reinterpret_cast<const std::uint8_t*>(codes), scale, head_dim, value.data());
  else numeric::decode_q8(codes, scale, head_dim, value.data());
  const Tile key_tile = keys(slot, head, position);
  for (int i = 0; i < stores.keys; ++i) codes[i] = key_tile.codes()[key_offset(position, i)];
  float restored[kMaxHeadDim];
  numeric::decode_q8(codes, key_tile.scales()[position % kTile], stores.keys, restored);
  if (stores.one) link::make_key(value, std::span(restored, static_cast<std::size_t>(stores.keys)), norm, key);
  else std::copy_n(restored, head_dim, key.data());
}

void qkv_norm_rope_coded(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, bool values_are_keys,
                         float epsilon, const KvCacheCoded& cache, Out q, Part part) {
  const int d = shape.head_dim;
  for_each_head(rows, qkv, angles, q_norm, k_norm, shape, {.values_are_keys = values_are_keys, .epsilon = epsilon}, true, q, part,
                [&](const graph::Row& row, int head, const float* key) { cache.store_key(row.slot, head, row.position, key); },
                [&](const graph::Row& row, int head, const float* x, float factor) {
                  float value[kMaxHeadDim];
                  for (int i = 0; i < d; ++i) value[i] = x[i] * factor;
                  cache.store_value(row.slot, head, row.position, value);
                });
}

void attention_coded(Rows rows, In q, const KvCacheCoded& cache, HeadShape shape, int window, Out out, Part part,
                     const CodedAttentionKernels& kernels) {
  for_each_jobs(rows, q, shape, window, out, part, [&](std::span<const AttentionJob> jobs) { kernels.attend(jobs, cache); });
}

}  // namespace lapidary::cpu
