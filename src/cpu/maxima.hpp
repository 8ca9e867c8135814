// The largest value of each of equal stretches of a row of logits: enough to skip most of the row when a token is chosen. The head
// finds them while the logits it has computed are near.
#pragma once

#include <algorithm>
#include <limits>

#include "cpu/vec.hpp"

namespace lapidary::cpu {

inline constexpr int kMaxStretches = 1024;
constexpr int stretch_length(int n) { return std::max(kLanes, (n + kMaxStretches - 1) / kMaxStretches); }

// Of those that are numbers; minus infinity when there is none.
inline float largest(const float* x, int n) {
  Vec most = Vec::broadcast(-std::numeric_limits<float>::infinity());
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) most = larger(Vec::load(x + i), most);
  float max = largest_lane(most);
  for (; i < n; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

// For the stretches that begin in first..first + count. Those that do not end there are left for later: not a number. y: [n]
inline void find_maxima(const float* y, int n, int first, int count, float* maxima) {
  const int length = stretch_length(n);
  for (int stretch = (first + length - 1) / length; stretch * length < first + count; ++stretch) {
    const int begin = stretch * length, end = std::min(n, begin + length);
    maxima[stretch] = end <= first + count ? largest(y + begin, end - begin) : std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace lapidary::cpu
