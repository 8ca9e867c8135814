// Heads of a row: norm, rotation, and where keys and values go. Shared by the kernels for either kind of K/V.
#pragma once

#include "cpu/kernels.hpp"
#include "cpu/norm.hpp"
#include "cpu/share.hpp"

namespace lapidary::cpu {

// out = rope(x * factor * weight); x, weight, out: [head_dim]; angles: [head_dim]
inline void norm_rope(const float* x, float factor, const float* weight, const float* angles, int head_dim, float* out) {
  const int half = head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const float a = x[i] * factor * weight[i];
    const float b = x[i + half] * factor * weight[i + half];
    const float cosine = angles[i], sine = angles[i + half];
    out[i] = a * cosine - b * sine;
    out[i + half] = b * cosine + a * sine;
  }
}

inline constexpr int kMaxHeadDim = 2048;

// What becomes of the heads of a row.
struct HeadRule {
  bool values_are_keys = false;   // before norm and rotation
  bool values_as_they_are = false;  // not normed
  float query_scale = 1.0f;
  float epsilon = 0.0f;
};

// Writes the queries to q; hands keys to store_key(row, head, key) and values to store_value(row, head, x, factor): x * factor.
template <class StoreKey, class StoreValue>
void for_each_head(Rows rows, In qkv, In angles, const float* q_norm, const float* k_norm, HeadShape shape, const HeadRule& rule,
                   bool own_kv, Out q, Part part, StoreKey store_key, StoreValue store_value) {
  const int d = shape.head_dim;
  const int units = shape.heads + (own_kv ? 2 * shape.kv_heads : 0);  // of a row: query heads, key heads, value heads
  for_each_own(static_cast<int>(rows.size()) * units, part, [&](int index) {
    const int r = index / units, unit = index % units;
    if (unit < shape.heads) {
      const float* x = qkv[r] + static_cast<std::size_t>(unit) * d;
      norm_rope(x, inverse_rms(x, d, rule.epsilon) * rule.query_scale, q_norm, angles[r], d, q[r] + static_cast<std::size_t>(unit) * d);
      return;
    }
    const int head = (unit - shape.heads) % shape.kv_heads;
    const bool is_key = unit < shape.heads + shape.kv_heads;
    const float* x = qkv[r] + static_cast<std::size_t>(is_key || rule.values_are_keys ? shape.heads + head : unit) * d;
    const float factor = !is_key && rule.values_as_they_are ? 1.0f : inverse_rms(x, d, rule.epsilon);
    if (is_key) {
      float key[kMaxHeadDim];
      norm_rope(x, factor, k_norm, angles[r], d, key);
      store_key(rows[r], head, key);
    } else {
      store_value(rows[r], head, x, factor);
    }
  });
}

}  // namespace lapidary::cpu
