// attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/linear.hpp"

namespace lapidary::reference {

// Is the key at `key` visible to the row at `position`? window 0: a full layer, causal also inside an image.
inline bool visible(std::int32_t key, std::int32_t position, std::int32_t block_end, int window, std::int32_t begin) {
  if (key < begin) return false;
  return window > 0 ? key <= block_end && position - key < window : key <= position;
}

// One query head: q [D], keys and values [positions][D]
inline Vector attention_head(const Vector& q, const Table& keys, const Table& values, std::int32_t position,
                             std::int32_t block_end, int window, std::int32_t begin = 0) {
  Vector scores(block_end + 1, -std::numeric_limits<double>::infinity());
  for (std::int32_t t = 0; t <= block_end; ++t)
    if (visible(t, position, block_end, window, begin)) scores[t] = dot(q, keys[t]);
  const double largest = *std::max_element(scores.begin(), scores.end());

  Vector out(q.size(), 0.0);
  double sum = 0.0;
  for (std::int32_t t = 0; t <= block_end; ++t) {
    if (!visible(t, position, block_end, window, begin)) continue;
    const double p = std::exp(scores[t] - largest);
    sum += p;
    for (std::size_t i = 0; i < q.size(); ++i) out[i] += p * values[t][i];
  }
  for (double& value : out) value /= sum;
  return out;
}

}  // namespace lapidary::reference
