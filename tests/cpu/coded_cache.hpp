// K/V as codes, and attention on them in every way this processor can.
#pragma once

#include <boost/ut.hpp>

#include "cpu/attention_coded.hpp"
#include "cpu/instructions.hpp"
#include "cpu/kernel_rows.hpp"
#include "reference/kv_codes.hpp"
#include "support/emulated.hpp"

namespace lapidary::test {

using link::KvCode;
using Way = cpu::CodedAttentionKernels;

inline std::vector<Way> all_ways() {
  std::vector<Way> all = {cpu::kExactCodedAttention};
  for (const cpu::Instructions& instructions : cpu::all_instructions())
    if (instructions.here && std::ranges::none_of(all, [&](const Way& way) { return way.attend == instructions.coded_attention->attend; }))
      all.push_back(*instructions.coded_attention);
  if (is_emulated()) return {all.front(), all.back()};
  return all;
}
inline bool is_exact(const Way& way) { return way.attend == cpu::kExactCodedAttention.attend; }

struct CodedShape {
  cpu::HeadShape heads;
  int pairs;  // that turn, of a layer that stores one vector; 0: keys and values
  KvCode values;
  int window = 0;
};

// K/V of a text from position 0 on. What is not written is what attention must not look at: codes 0x80, scales that are no numbers.
struct CodedCache {
  CodedShape shape;
  int capacity;
  std::vector<std::byte> k, v;
  std::vector<float> norm;
  cpu::KvCacheCoded view;

  CodedCache(const CodedShape& of, int positions) : shape(of), capacity((positions + 63) / 64 * 64) {
    const int d = shape.heads.head_dim;
    const link::KvStores stores{.key_code = KvCode::q8, .value_code = shape.values, .keys = shape.pairs ? 2 * shape.pairs : d, .values = d,
                                .one = shape.pairs > 0};
    const auto room = static_cast<std::size_t>(shape.heads.kv_heads) * capacity;
    k.assign(room * stores.key_bytes(), std::byte{0x80});
    v.assign(room * stores.value_bytes(), std::byte{0x80});
    norm.assign(d, 1.0f);
    view = {k.data(), v.data(), stores, shape.heads.kv_heads, d, capacity, 0, norm.data()};
    spoil(0, capacity, std::numeric_limits<float>::quiet_NaN());
  }
  CodedCache(const CodedCache&) = delete;

  void spoil(int begin, int end, float scale) {
    for (int head = 0; head < shape.heads.kv_heads; ++head)
      for (int t = begin; t < end; ++t) {
        const auto keys = view.keys(0, head, t), values = view.values(0, head, t);
        for (int i = 0; i < view.stores.keys; ++i) keys.codes()[view.key_offset(t, i)] = -128;
        for (int i = 0; i < static_cast<int>(values.code_bytes); ++i) values.codes()[view.value_offset(t, i)] = -128;
        keys.scales()[t % 64] = values.scales()[t % 64] = scale;
      }
  }

  void fill(Random& random, int positions) {
    norm = random.floats(shape.heads.head_dim, 0.5, 1.5);
    view.norm = norm.data();
    for (int t = 0; t < positions; ++t)
      for (int head = 0; head < shape.heads.kv_heads; ++head) {
        const auto key = random.floats(shape.heads.head_dim, -0.3, 0.3), value = random.floats(shape.heads.head_dim, -1, 1);
        view.store_key(0, head, t, key.data());
        view.store_value(0, head, t, value.data());
      }
  }

  // As they stand there, by definition.
  std::pair<reference::Vector, reference::Vector> at(int head, int t) const {
    const auto keys = view.keys(0, head, t), values = view.values(0, head, t);
    reference::Coded key{.scale = keys.scales()[t % 64]}, value{.scale = values.scales()[t % 64]};
    for (int i = 0; i < view.stores.keys; ++i) key.codes.push_back(keys.codes()[view.key_offset(t, i)]);
    const int d = view.head_dim;
    for (int i = 0; i < d; ++i) {
      if (shape.values == KvCode::q8) {
        value.codes.push_back(values.codes()[view.value_offset(t, i)]);
      } else {
        const auto byte = static_cast<std::uint8_t>(values.codes()[view.value_offset(t, i % (d / 2))]);
        value.codes.push_back(static_cast<std::int8_t>(reference::kNibbleCodes[i < d / 2 ? byte % 16 : byte / 16]));
      }
    }
    const reference::Vector restored = reference::restored(value), turned = reference::restored(key);
    if (!shape.pairs) return {turned, restored};
    return {reference::key_of(restored, turned, {norm.begin(), norm.end()}), restored};
  }
};

inline FloatRows attend(const Way& way, const std::vector<int>& positions, const FloatRows& q, const CodedCache& cache, int parts = 1) {
  std::vector<graph::Row> rows;
  for (const int position : positions) rows.push_back({0, position, 0, position});
  const RowBuffer in(q);
  const cpu::HeadShape& heads = cache.shape.heads;
  RowBuffer out(static_cast<int>(rows.size()), heads.heads * heads.head_dim);
  in_parts(parts, [&](cpu::Part part) {
    cpu::attention_coded(rows, in.in(), cache.view, heads, cache.shape.window, out.out(), part, way);
  });
  return out.rows();
}

// The largest difference, by the largest magnitude of what is expected.
inline double difference(const std::vector<float>& got, const std::vector<float>& expected) {
  double most = 0, off = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, static_cast<double>(std::abs(expected[i])));
    off = std::isnan(got[i]) ? INFINITY : std::max(off, static_cast<double>(std::abs(got[i] - expected[i])));
  }
  return off / most;
}

}  // namespace lapidary::test
