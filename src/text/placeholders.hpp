// Images, audio and video in a prompt: the template writes one placeholder each, the model reads one token per soft vector.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.hpp"

namespace lapidary::text {

struct Media {
  enum class Kind : std::uint8_t { image, audio, video };
  Kind kind = Kind::image;
  int soft_tokens = 0;                // video: per frame
  std::vector<double> frame_seconds;  // video: when each frame is shown
};

// What stands in the prompt for it.
std::string expansion(const Media& media);

// Replaces the template's placeholders by `media`, in order. Placeholder names inside quoted text are left alone.
std::vector<Span> expand_placeholders(std::span<const Span> prompt, std::span<const Media> media);

}  // namespace lapidary::text
