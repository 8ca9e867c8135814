#include "media/picture.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "media/find_format.hpp"

namespace lapidary::media {

Picture decode_picture(std::span<const std::byte> file, std::string_view where, const PictureLimits& limits) {
  return decoder_of(picture_formats(), file, where, limits.bytes)(file, where, limits);
}

Size fitted(Size size, std::int32_t budget) {
  const std::int64_t most = std::int64_t{budget} * kSoftTokenSide * kSoftTokenSide;
  const double factor = std::sqrt(static_cast<double>(most) / static_cast<double>(size.pixels()));
  const auto side = [&](std::int32_t length) {
    return static_cast<std::int32_t>(std::floor(factor * length / kSoftTokenSide)) * kSoftTokenSide;
  };
  const auto long_side = [&](std::int32_t length, std::int32_t other) { return std::min(length / other, budget) * kSoftTokenSide; };
  Size fit{side(size.width), side(size.height)};
  if (fit.height == 0) fit = {long_side(size.width, size.height), kSoftTokenSide};
  else if (fit.width == 0) fit = {kSoftTokenSide, long_side(size.height, size.width)};
  assert(fit.width > 0 && fit.height > 0 && fit.pixels() <= most);
  return fit;
}

Patches patches(const Picture& picture, std::int32_t side) {
  assert(picture.size.width % side == 0 && picture.size.height % side == 0);
  Patches cut{picture.size.height / side, picture.size.width / side};
  cut.values.resize(picture.rgb.size());
  const std::size_t row_bytes = static_cast<std::size_t>(picture.size.width) * 3, patch_row = static_cast<std::size_t>(side) * 3;
  float* to = cut.values.data();
  for (std::int32_t row = 0; row < cut.rows; ++row)
    for (std::int32_t column = 0; column < cut.columns; ++column) {
      const std::uint8_t* from = picture.rgb.data() + static_cast<std::size_t>(row * side) * row_bytes + static_cast<std::size_t>(column) * patch_row;
      for (std::int32_t y = 0; y < side; ++y, from += row_bytes, to += patch_row)
        for (std::size_t i = 0; i < patch_row; ++i) to[i] = static_cast<float>(from[i]) / 255.0f;
    }
  return cut;
}

}  // namespace lapidary::media
