// The factor of an rms norm.
#pragma once

#include <cmath>

#include "cpu/dot.hpp"

namespace lapidary::cpu {

// The squares of a row, added up in one go or piece by piece: the same bits when the pieces are multiples of kLanes.
class SquareSum {
 public:
  void add(const float* x, int count) { dot_tile<1, 1>(&x, x, 0, count, lanes_, 0); }

  // (mean(x^2) + epsilon)^(-1/2) of the n values added
  float inverse_rms(int n, float epsilon) const {
    return 1.0f / std::sqrt(sum_lanes(lanes_) / static_cast<float>(n) + epsilon);
  }

 private:
  float lanes_[kLanes] = {};
};

// x: [n]
inline float inverse_rms(const float* x, int n, float epsilon) {
  SquareSum sum;
  sum.add(x, n);
  return sum.inverse_rms(n, epsilon);
}

}  // namespace lapidary::cpu
