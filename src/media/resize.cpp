// Pillow's bicubic filter to the byte: first along rows, then along columns, 8 bits between the two, weights of 22 binary places.
// Sums are of whole numbers: their order, and so the vectors that they are made in, do not show.
#include <algorithm>
#include <array>
#include <cmath>

#include "media/picture.hpp"

namespace lapidary::media {

namespace {

constexpr int kPlaces = 22;
constexpr std::int32_t kHalf = 1 << (kPlaces - 1);

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// What each output along one axis is made of.
struct Axis {
  struct Output { std::int32_t first, count; };  // inputs
  std::vector<Output> outputs{};
  std::vector<std::int32_t> weights{};  // [outputs, most]
  std::size_t most = 0;

  Axis(std::int32_t in, std::int32_t out) {
    const double scale = static_cast<double>(in) / out, stretch = std::max(scale, 1.0), support = 2 * stretch;
    most = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
    outputs.resize(static_cast<std::size_t>(out));
    weights.resize(outputs.size() * most);
    std::vector<double> exact(most);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const double center = (static_cast<double>(i) + 0.5) * scale;
      const auto first = std::max(static_cast<std::int32_t>(center - support + 0.5), 0);
      const auto end = std::min(static_cast<std::int32_t>(center + support + 0.5), in);
      outputs[i] = {first, end - first};
      double sum = 0;
      for (std::int32_t tap = first; tap < end; ++tap) sum += exact[static_cast<std::size_t>(tap - first)] = cubic((tap - center + 0.5) * (1 / stretch));
      for (std::int32_t tap = 0; tap < end - first; ++tap) {
        const double weight = (sum != 0 ? exact[static_cast<std::size_t>(tap)] / sum : exact[static_cast<std::size_t>(tap)]) * (1 << kPlaces);
        weights[i * most + static_cast<std::size_t>(tap)] = static_cast<std::int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
      }
    }
  }
};

std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kPlaces, 0, 255)); }

// Rows go along their axis four at a time: a lane each.
constexpr std::size_t kLanes = 4;
using Lanes = std::array<std::int32_t, kLanes>;

// from, to: [kLanes] rows of pixels. lanes: room for a row of them, [width, 3].
void resize_rows(const std::array<const std::uint8_t*, kLanes>& from, const std::array<std::uint8_t*, kLanes>& to, const Axis& axis,
                 std::vector<Lanes>& lanes) {
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = {from[0][i], from[1][i], from[2][i], from[3][i]};
  const std::int32_t* weights = axis.weights.data();
  for (std::size_t x = 0; x < axis.outputs.size(); ++x, weights += axis.most) {
    const auto [first, count] = axis.outputs[x];
    const Lanes* input = lanes.data() + static_cast<std::size_t>(first) * 3;
    Lanes red{kHalf, kHalf, kHalf, kHalf}, green = red, blue = red;
    for (std::int32_t tap = 0; tap < count; ++tap, input += 3)
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        red[lane] += input[0][lane] * weights[tap];
        green[lane] += input[1][lane] * weights[tap];
        blue[lane] += input[2][lane] * weights[tap];
      }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      to[lane][x * 3] = rounded(red[lane]);
      to[lane][x * 3 + 1] = rounded(green[lane]);
      to[lane][x * 3 + 2] = rounded(blue[lane]);
    }
  }
}

Picture resized_across(const Picture& picture, std::int32_t width) {
  const Axis axis(picture.size.width, width);
  Picture out{{width, picture.size.height}};
  const std::size_t in_row = static_cast<std::size_t>(picture.size.width) * 3, out_row = static_cast<std::size_t>(width) * 3;
  const auto height = static_cast<std::size_t>(picture.size.height);
  out.rgb.resize(out_row * height);
  std::vector<Lanes> lanes(in_row);
  for (std::size_t y = 0; y < height; y += kLanes) {
    std::array<const std::uint8_t*, kLanes> from;
    std::array<std::uint8_t*, kLanes> to;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t row = std::min(y + lane, height - 1);  // the last one several times
      from[lane] = picture.rgb.data() + row * in_row;
      to[lane] = out.rgb.data() + row * out_row;
    }
    resize_rows(from, to, axis, lanes);
  }
  return out;
}

Picture resized_down(const Picture& picture, std::int32_t height) {
  const Axis axis(picture.size.height, height);
  Picture out{{picture.size.width, height}};
  const std::size_t row = static_cast<std::size_t>(picture.size.width) * 3;
  out.rgb.resize(row * static_cast<std::size_t>(height));
  constexpr std::size_t kStretch = 64;  // bytes of a row, whose sums stay in registers
  const auto add = [&](const Axis::Output& output, const std::int32_t* weights, std::size_t begin, std::size_t count, std::uint8_t* to) {
    std::array<std::int32_t, kStretch> sums;
    sums.fill(kHalf);
    const std::uint8_t* from = picture.rgb.data() + static_cast<std::size_t>(output.first) * row + begin;
    for (std::int32_t tap = 0; tap < output.count; ++tap, from += row)
      for (std::size_t i = 0; i < count; ++i) sums[i] += from[i] * weights[tap];
    for (std::size_t i = 0; i < count; ++i) to[i] = rounded(sums[i]);
  };
  for (std::size_t y = 0; y < axis.outputs.size(); ++y) {
    const std::int32_t* weights = axis.weights.data() + y * axis.most;
    std::uint8_t* to = out.rgb.data() + y * row;
    std::size_t begin = 0;
    for (; begin + kStretch <= row; begin += kStretch) add(axis.outputs[y], weights, begin, kStretch, to + begin);
    add(axis.outputs[y], weights, begin, row - begin, to + begin);
  }
  return out;
}

}  // namespace

Picture resized(const Picture& picture, Size size) {
  if (picture.size == size) return picture;
  if (picture.size.width == size.width) return resized_down(picture, size.height);
  Picture across = resized_across(picture, size.width);
  if (across.size == size) return across;
  return resized_down(across, size.height);
}

}  // namespace lapidary::media
