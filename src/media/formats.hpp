// The formats of files, and which of them a program decodes: that depends on the libraries of the build, and of a cut program also on
// what its model perceives.
#pragma once

#include <span>
#include <string_view>

#include "media/picture.hpp"
#include "media/sound.hpp"
#include "media/video.hpp"

namespace lapidary::media {

struct Decoders;

template <class Decoder>
struct Format {
  std::string_view name;                                 // "PNG"
  std::string_view library;                              // what it takes to build its decoder, as Debian calls it
  bool (*begins)(std::span<const std::byte> file);       // does the file begin like one
  Decoder* Decoders::*decode;                            // its place among decoders; null there where a program has none
};

using PictureDecoder = Picture(std::span<const std::byte> file, std::string_view where, const PictureLimits& limits);
using SoundDecoder = Sound(std::span<const std::byte> file, std::string_view where, const SoundLimits& limits);
using VideoDecoder = std::vector<Frame>(std::span<const std::byte> file, std::string_view where, std::int32_t budget,
                                        std::int32_t count, const VideoLimits& limits);

struct Decoders {
  PictureDecoder *png = nullptr, *jpeg = nullptr, *webp = nullptr, *gif = nullptr;
  SoundDecoder* sound = nullptr;
  VideoDecoder* video = nullptr;
};
extern const Decoders kDecoders;  // of this program

PictureDecoder decode_png, decode_jpeg, decode_webp, decode_gif;
SoundDecoder decode_sndfile;
VideoDecoder decode_libav;

std::span<const Format<PictureDecoder>> picture_formats();
std::span<const Format<SoundDecoder>> sound_formats();
std::span<const Format<VideoDecoder>> video_formats();

}  // namespace lapidary::media
