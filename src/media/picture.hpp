// Pictures: from the bytes of a file to what a vision tower takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lapidary::media {

struct Size {
  std::int32_t width = 0, height = 0;  // pixels

  std::int64_t pixels() const { return std::int64_t{width} * height; }
  bool operator==(const Size&) const = default;
};

struct Picture {
  Size size;
  std::vector<std::uint8_t> rgb{};  // [height, width, 3]
};

// Checked before anything is decoded or allocated.
struct PictureLimits {
  std::size_t bytes = std::size_t{64} << 20;     // of the file
  std::int64_t pixels = std::int64_t{64} << 20;  // of the picture
  std::int32_t side = 65535;                     // pixels, of either
};

// A file of any format in the table of formats.hpp, told by its first bytes; of one that moves, the first picture. What is see-through
// shows white, 16 bits become the higher 8, and EXIF's orientation is obeyed. Fails with `where` for whatever is not a whole picture.
Picture decode_picture(std::span<const std::byte> file, std::string_view where, const PictureLimits& limits = {});

// A soft token is a square of this many pixels: three patches of 16 each way.
constexpr std::int32_t kSoftTokenSide = 48;

// How many soft tokens a picture may become.
constexpr std::array<std::int32_t, 5> kBudgets = {70, 140, 280, 560, 1120};
constexpr std::int32_t kPictureBudget = 280, kFrameBudget = 70;  // where nobody says: of a picture, of a frame of a video

constexpr std::int32_t soft_tokens(Size size) { return (size.width / kSoftTokenSide) * (size.height / kSoftTokenSide); }

// The size to show a picture in: both sides multiples of kSoftTokenSide, at most `budget` soft tokens, about the same shape. Small
// pictures grow.
Size fitted(Size size, std::int32_t budget);

// To the byte what Pillow's bicubic filter gives.
Picture resized(const Picture& picture, Size size);

struct Patches {
  std::int32_t rows = 0, columns = 0;
  std::vector<float> values{};  // [rows * columns, side * side * 3], of a patch row by row, from 0 to 1
};

// Both sides of the picture are multiples of `side` (16, or 48 where there is no tower).
Patches patches(const Picture& picture, std::int32_t side);

}  // namespace lapidary::media
