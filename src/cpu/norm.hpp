// The factor of an rms norm, and the mean that a layer norm takes off before it.
#pragma once

#include <cmath>

#include "cpu/dot.hpp"

namespace lapidary::cpu {

// (mean(x^2) + epsilon)^(-1/2); x: [n]
inline float inverse_rms(const float* x, int n, float epsilon) {
  float lanes[kLanes] = {};
  dot_tile<1, 1>(&x, x, 0, n, lanes, 0);
  return 1.0f / std::sqrt(sum_lanes(lanes) / static_cast<float>(n) + epsilon);
}

// x: [n]
inline float mean_of(const float* x, int n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i % kLanes] += x[i];
  return sum_lanes(lanes) / static_cast<float>(n);
}

}  // namespace lapidary::cpu
