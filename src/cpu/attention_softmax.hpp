// The softmax of a tile's scores, as both fast kinds of attention take it.
#pragma once

#include <algorithm>
#include <limits>

#include "cpu/vec.hpp"
#include "graph/graph.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {

// The largest visible score of a tile; the others are hidden. s: [kTile]
[[gnu::always_inline]] inline float find_most(float* s, int begin, int end) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  std::fill(s, s + begin, kMinusInfinity);
  std::fill(s + end, s + graph::kTile, kMinusInfinity);
  Vec most = Vec::broadcast(kMinusInfinity);
  for (int i = 0; i < graph::kTile; i += kLanes) most = larger(Vec::load(s + i), most);
  return largest_lane(most);
}

// Scores to probabilities, up to the final division; returns their sum. s: [kTile]
[[gnu::always_inline]] inline float weigh(float* s, float max) {
  LAPIDARY_SIDE_BY_SIDE
  for (int i = 0; i < graph::kTile; ++i) s[i] = numeric::exp(s[i] - max);
  Vec sum = Vec::broadcast(0.0f);
  for (int i = 0; i < graph::kTile; i += kLanes) sum = sum + Vec::load(s + i);
  float lanes[kLanes];
  sum.store(lanes);
  return sum_lanes(lanes);
}

}  // namespace lapidary::cpu
