// Pillow's bicubic filter, one pixel at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "media/picture.hpp"

namespace lapidary::reference {

inline double cubic(double x) {
  x = std::fabs(x);
  if (x >= 2) return 0;
  return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
}

// Of `count` values, `at(i)` the i-th: the `out`-th of `outputs`.
template <class At>
std::uint8_t filtered(int count, int outputs, int out, At at) {
  const double scale = static_cast<double>(count) / outputs, stretch = std::max(scale, 1.0), center = (out + 0.5) * scale;
  std::vector<double> weights;
  const int first = std::max(0, static_cast<int>(std::floor(center - 2 * stretch + 0.5)));
  const int end = std::min(count, static_cast<int>(std::floor(center + 2 * stretch + 0.5)));
  double sum = 0;
  for (int i = first; i < end; ++i) weights.push_back(cubic((i - center + 0.5) / stretch)), sum += weights.back();
  double value = 0;
  for (int i = first; i < end; ++i) value += std::round(weights[static_cast<std::size_t>(i - first)] / sum * 0x1p22) * 0x1p-22 * at(i);
  return static_cast<std::uint8_t>(std::clamp(std::floor(value + 0.5), 0.0, 255.0));
}

inline media::Picture resized(const media::Picture& picture, media::Size size) {
  const auto [width, height] = picture.size;
  const auto pixel = [](const media::Picture& of, int x, int y, int c) -> auto& {
    return of.rgb[(static_cast<std::size_t>(y) * static_cast<std::size_t>(of.size.width) + static_cast<std::size_t>(x)) * 3 + static_cast<std::size_t>(c)];
  };
  media::Picture across{{size.width, height}}, out{size};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < size.width; ++x)
      for (int c = 0; c < 3; ++c) across.rgb.push_back(filtered(width, size.width, x, [&](int i) { return pixel(picture, i, y, c); }));
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x)
      for (int c = 0; c < 3; ++c) out.rgb.push_back(filtered(height, size.height, y, [&](int i) { return pixel(across, x, i, c); }));
  return out;
}

}  // namespace lapidary::reference
