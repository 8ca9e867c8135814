// What reads one format each, and what they share. A file was told by its first bytes, and is no larger than its limit.
#pragma once

#include <string>

#include "checkpoint/error.hpp"
#include "media/formats.hpp"

namespace lapidary::media {

using Bytes = std::span<const std::byte>;

// Of a file of the named format that its library does not take: `got` is what that says.
[[noreturn]] void refuse(ErrorKind kind, std::string_view where, std::string_view format, std::string_view got);

// Fails unless a picture of this size can be made and is wanted.
void check_size(std::int64_t width, std::int64_t height, const PictureLimits& limits, std::string_view where);

// 8 bits of a colour, where alpha of 255 hides what is behind.
constexpr std::uint8_t on_white(std::uint8_t value, std::uint8_t alpha) {
  return static_cast<std::uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

// The opaque picture that pixels with alpha give. rgba: [height, width, 4]
Picture on_white(Size size, std::span<const std::uint8_t> rgba);

// EXIF's number for how a camera was held, 1 to 8; 1, upright, where nothing is said. `exif` begins with its TIFF header, or with the
// word Exif in front of that.
int exif_orientation(Bytes exif);

// The picture upright.
Picture oriented(Picture picture, int orientation);

}  // namespace lapidary::media
