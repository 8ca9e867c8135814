#include "media/formats.hpp"

#include <cstring>

namespace lapidary::media {

namespace {

// The text that bytes are at some place of a file that has so many.
template <std::size_t kSize>
bool has(std::span<const std::byte> file, std::size_t at, const char (&text)[kSize]) {
  return std::memcmp(file.data() + at, text, kSize - 1) == 0;
}

using Bytes = std::span<const std::byte>;

constexpr const char* kLibav = "libavformat-dev, libavcodec-dev and libswscale-dev";
constexpr const char* kSndfile = "libsndfile1-dev and libsoxr-dev";

constexpr Format<PictureDecoder> kPictures[] = {
    {"PNG", "libpng-dev", [](Bytes file) { return has(file, 0, "\x89PNG\r\n\x1a\n"); }, &Decoders::png},
    {"JPEG", "libjpeg-dev", [](Bytes file) { return has(file, 0, "\xff\xd8\xff"); }, &Decoders::jpeg},
    {"WebP", "libwebp-dev", [](Bytes file) { return has(file, 0, "RIFF") && has(file, 8, "WEBP"); }, &Decoders::webp},
    {"GIF", "libgif-dev", [](Bytes file) { return has(file, 0, "GIF87a") || has(file, 0, "GIF89a"); }, &Decoders::gif},
};

constexpr Format<SoundDecoder> kSounds[] = {
    {"WAV", kSndfile, [](Bytes file) { return has(file, 0, "RIFF") && has(file, 8, "WAVE"); }, &Decoders::sound},
    {"FLAC", kSndfile, [](Bytes file) { return has(file, 0, "fLaC"); }, &Decoders::sound},
    {"Ogg", kSndfile, [](Bytes file) { return has(file, 0, "OggS"); }, &Decoders::sound},
    {"MP3", kSndfile, [](Bytes file) {
      return has(file, 0, "ID3") || (file[0] == std::byte{0xff} && (file[1] & std::byte{0xe0}) == std::byte{0xe0});
    }, &Decoders::sound},
};

constexpr Format<VideoDecoder> kVideos[] = {
    {"MP4", kLibav, [](Bytes file) { return has(file, 4, "ftyp") || has(file, 4, "moov") || has(file, 4, "wide"); }, &Decoders::video},
    {"Matroska", kLibav, [](Bytes file) { return has(file, 0, "\x1a\x45\xdf\xa3"); }, &Decoders::video},
    {"AVI", kLibav, [](Bytes file) { return has(file, 0, "RIFF") && has(file, 8, "AVI "); }, &Decoders::video},
};

}  // namespace

std::span<const Format<PictureDecoder>> picture_formats() { return kPictures; }
std::span<const Format<SoundDecoder>> sound_formats() { return kSounds; }
std::span<const Format<VideoDecoder>> video_formats() { return kVideos; }

}  // namespace lapidary::media
