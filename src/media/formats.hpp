// The formats of files: a table that the build makes of the libraries it has. Programs that read no files have one without decoders.
#pragma once

#include <span>
#include <string_view>

#include "media/picture.hpp"
#include "media/sound.hpp"
#include "media/video.hpp"

namespace lapidary::media {

template <class Decoder>
struct Format {
  std::string_view name;                                 // "PNG"
  std::string_view library;                              // what it takes to build its decoder, as Debian calls it
  bool (*begins)(std::span<const std::byte> file);       // does the file begin like one
  Decoder* decode;                                       // null: this program was built without that library
};

using PictureDecoder = Picture(std::span<const std::byte> file, std::string_view where, const PictureLimits& limits);
using SoundDecoder = Sound(std::span<const std::byte> file, std::string_view where, const SoundLimits& limits);
using VideoDecoder = std::vector<Frame>(std::span<const std::byte> file, std::string_view where, std::int32_t budget,
                                        std::int32_t count, const VideoLimits& limits);

std::span<const Format<PictureDecoder>> picture_formats();
std::span<const Format<SoundDecoder>> sound_formats();
std::span<const Format<VideoDecoder>> video_formats();

}  // namespace lapidary::media
