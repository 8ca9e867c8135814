#include "media/decoders.hpp"

namespace lapidary::media {

void refuse(ErrorKind kind, std::string_view where, std::string_view format, std::string_view got) {
  fail(kind, std::string(where), std::string(format) + " file, expected a whole one, got \"" + std::string(got) + '"');
}

void check_size(std::int64_t width, std::int64_t height, const PictureLimits& limits, std::string_view where) {
  const std::string got = std::to_string(width) + " x " + std::to_string(height);
  if (width < 1 || height < 1) fail(ErrorKind::bad_value, std::string(where), "size, expected at least 1 x 1 pixel, got " + got);
  if (width > limits.side || height > limits.side)
    fail(ErrorKind::too_large, std::string(where), "size, expected at most " + std::to_string(limits.side) + " pixels a side, got " + got);
  if (width * height > limits.pixels)
    fail(ErrorKind::too_large, std::string(where), "size, expected at most " + std::to_string(limits.pixels) + " pixels, got " + got);
}

Picture on_white(Size size, std::span<const std::uint8_t> rgba) {
  Picture picture{size};
  picture.rgb.resize(rgba.size() / 4 * 3);
  for (std::size_t from = 0, to = 0; from < rgba.size(); from += 4, to += 3)
    for (std::size_t c = 0; c < 3; ++c) picture.rgb[to + c] = on_white(rgba[from + c], rgba[from + 3]);
  return picture;
}

}  // namespace lapidary::media
