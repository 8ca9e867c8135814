// The factor of an rms norm.
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

}  // namespace lapidary::cpu
