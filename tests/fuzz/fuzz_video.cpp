// Any bytes as a file of a video: an Error, or a few frames.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "checkpoint/error.hpp"
#include "media/video.hpp"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lapidary::media;
  const VideoLimits limits{.bytes = 1 << 20, .pixels = 1 << 16, .frames = 200};
  try {
    const auto frames = decode_video(std::as_bytes(std::span(data, size)), "fuzz", kFrameBudget, 2, limits);
    check(!frames.empty() && frames.size() <= 2);
    for (const Frame& frame : frames)
      check(std::isfinite(frame.seconds) && frame.seconds >= 0 && soft_tokens(frame.picture.size) <= kFrameBudget &&
            frame.picture.rgb.size() == static_cast<std::size_t>(frame.picture.size.pixels()) * 3);
  } catch (const lapidary::Error& error) {
    check(error.what.find(", expected ") != std::string::npos);
  }
  return 0;
}
