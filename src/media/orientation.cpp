// EXIF says how a camera was held. The tag stands in the first directory of a TIFF file inside the picture's.
#include <algorithm>
#include <array>
#include <cstring>

#include "media/decoders.hpp"

namespace lapidary::media {

namespace {

class Tiff {
 public:
  explicit Tiff(Bytes bytes) : bytes_(bytes), big_(bytes.size() > 0 && bytes[0] == std::byte{'M'}) {}

  bool holds(std::size_t at, std::size_t count) const { return at <= bytes_.size() && count <= bytes_.size() - at; }
  std::uint32_t number(std::size_t at, std::size_t bytes) const {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes_[at + (big_ ? i : bytes - 1 - i)]);
    return value;
  }

 private:
  Bytes bytes_;
  bool big_;  // the higher bytes first
};

}  // namespace

int exif_orientation(Bytes exif) {
  constexpr std::array kWord = {std::byte{'E'}, std::byte{'x'}, std::byte{'i'}, std::byte{'f'}, std::byte{0}, std::byte{0}};
  if (exif.size() >= kWord.size() && std::ranges::equal(exif.first(kWord.size()), kWord)) exif = exif.subspan(kWord.size());
  constexpr std::size_t kEntry = 12;  // tag, type, count, value
  constexpr std::uint32_t kOrientation = 0x112, kShort = 3;
  const Tiff tiff(exif);
  if (!tiff.holds(0, 8)) return 1;
  const std::size_t directory = tiff.number(4, 4);
  if (!tiff.holds(directory, 2)) return 1;
  std::size_t at = directory + 2;
  for (std::uint32_t left = tiff.number(directory, 2); left > 0 && tiff.holds(at, kEntry); --left, at += kEntry) {
    if (tiff.number(at, 2) != kOrientation || tiff.number(at + 2, 2) != kShort) continue;
    const std::uint32_t value = tiff.number(at + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Picture oriented(Picture picture, int orientation) {
  if (orientation == 1) return picture;
  // Columns and rows of the file are counted from its left and top, or from the other end; from 5 on, its columns become rows.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool turned = orientation >= 5;
  const Size size = picture.size;
  const std::ptrdiff_t row = std::ptrdiff_t{size.width} * 3;
  const std::uint8_t* first = picture.rgb.data() + (from_right ? row - 3 : 0) + (from_bottom ? row * (size.height - 1) : 0);
  std::ptrdiff_t right = from_right ? -3 : 3, down = from_bottom ? -row : row;  // from a pixel to its neighbours when upright
  if (turned) std::swap(right, down);
  Picture upright{turned ? Size{size.height, size.width} : size};
  upright.rgb.resize(picture.rgb.size());
  // In squares, so that what is read and what is written both stay near.
  constexpr std::int32_t kSquare = 16;
  for (std::int32_t top = 0; top < upright.size.height; top += kSquare)
    for (std::int32_t left = 0; left < upright.size.width; left += kSquare)
      for (std::int32_t y = top; y < std::min(top + kSquare, upright.size.height); ++y) {
        std::uint8_t* to = upright.rgb.data() + (std::ptrdiff_t{y} * upright.size.width + left) * 3;
        const std::uint8_t* from = first + y * down + left * right;
        for (std::int32_t x = left; x < std::min(left + kSquare, upright.size.width); ++x, to += 3, from += right) std::memcpy(to, from, 3);
      }
  return upright;
}

}  // namespace lapidary::media
