#include "media/video.hpp"

#include "media/find_format.hpp"

namespace lapidary::media {

std::vector<Frame> decode_video(std::span<const std::byte> file, std::string_view where, std::int32_t budget, std::int32_t count,
                                const VideoLimits& limits) {
  return decoder_of(video_formats(), file, where, limits.bytes)(file, where, budget, count, limits);
}

}  // namespace lapidary::media
