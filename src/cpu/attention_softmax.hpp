// The softmax of a tile's scores, as both fast kinds of attention take it.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>

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
  float lanes[kLanes];  // numbers
  most.store(lanes);
  const auto larger_of = [&](int i, int j) __attribute__((always_inline)) { return std::max(lanes[i], lanes[j]); };
  return std::max(std::max(larger_of(0, 4), larger_of(1, 5)), std::max(larger_of(2, 6), larger_of(3, 7)));
}

// Scores to probabilities, up to the final division; returns their sum. s: [kTile]
[[gnu::always_inline]] inline float weigh(float* s, float max) {
  LAPIDARY_SIDE_BY_SIDE
  for (int i = 0; i < graph::kTile; ++i) s[i] = numeric::exp_negative(s[i] - max);
  Vec sum = Vec::broadcast(0.0f);
  for (int i = 0; i < graph::kTile; i += kLanes) sum = sum + Vec::load(s + i);
  float lanes[kLanes];
  sum.store(lanes);
  return sum_lanes(lanes);
}

// A tile for so many heads of a job, step by step for all of them, which do not wait for each other: scores to probabilities, what goes
// before to what is left of it. scores: [heads][kTile]; max, sum: of what goes before, [heads]; keep: what that is multiplied by
[[gnu::always_inline]] inline void weigh_all(float (*scores)[graph::kTile], int heads, int begin, int end, float* max, float* sum, float* keep) {
  constexpr int kMost = 8;
  float before[kMost];
  for (int head = 0; head < heads; ++head) before[head] = std::exchange(max[head], std::max(max[head], find_most(scores[head], begin, end)));
  LAPIDARY_SIDE_BY_SIDE
  for (int head = 0; head < heads; ++head) keep[head] = numeric::exp_negative(before[head] - max[head]);
  for (int head = 0; head < heads; ++head) sum[head] = numeric::fused(sum[head], keep[head], weigh(scores[head], max[head]));
}

}  // namespace lapidary::cpu
