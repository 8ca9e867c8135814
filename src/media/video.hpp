// Videos: frames of a file, sampled evenly and shown as small pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "media/picture.hpp"

namespace lapidary::media {

struct Frame {
  Picture picture;  // resized to its budget, all frames alike
  double seconds;   // from the beginning of the video
};

struct VideoLimits {
  std::size_t bytes = std::size_t{1} << 30;      // of the file
  std::int64_t pixels = std::int64_t{16} << 20;  // of a frame
  std::int64_t frames = 54'000;                  // of the file, all of which are decoded: half an hour
};

constexpr std::int32_t kFrameCount = 32;

// `count` frames of a file of any format in the table of formats.hpp: the j-th is number ⌊j * all / count⌋ of those it has; where it has
// fewer, each of them. Their sound is not heard. Fails with `where` for whatever is not a whole video.
std::vector<Frame> decode_video(std::span<const std::byte> file, std::string_view where, std::int32_t budget = kFrameBudget,
                                std::int32_t count = kFrameCount, const VideoLimits& limits = {});

}  // namespace lapidary::media
