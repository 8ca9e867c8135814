// argmax.
#pragma once

#include <cstdint>
#include <vector>

namespace lapidary::reference {

// The lowest index of the largest value.
inline std::int32_t argmax(const std::vector<float>& values) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i)
    if (values[i] > values[best]) best = i;
  return static_cast<std::int32_t>(best);
}

}  // namespace lapidary::reference
