// How work is divided: contiguous shares, decided by the numbers alone.
#pragma once

#include <algorithm>

#include "cpu/kernels.hpp"

namespace lapidary::cpu {

struct Range {
  int begin = 0, end = 0;
};

// The part's share of 0..total, in whole grains (the last may be short).
inline Range share(int total, Part part, int grain = 1) {
  const long grains = (total + grain - 1) / grain;
  const auto at = [&](long index) { return static_cast<int>(std::min<long>(total, grains * index / part.count * grain)); };
  return {at(part.index), at(part.index + 1)};
}

}  // namespace lapidary::cpu
