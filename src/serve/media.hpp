// The pictures and sounds of a request, decoded. It takes a while.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "engine/media.hpp"
#include "serve/job.hpp"

namespace lapidary::serve {

// Strangers send these, or say where they lie. Each limit is checked before anything is decoded or allocated.
struct MediaLimits {
  std::size_t bytes = 20'000'000;          // of a file
  std::int32_t side = 8192;                // pixels of a picture, either way
  std::int64_t pixels = 40'000'000;        // of all pictures
  std::int32_t seconds = 30;               // of a sound
  double fetch_s = 10;                     // for all that lies elsewhere
};

// Throws a Refusal that names the field. `cancelled`: nobody waits any more.
std::vector<engine::Medium> media_of(const graph::Graph& graph, std::int32_t image_tokens, std::span<const MediaItem> items,
                                     const MediaLimits& limits = {}, const std::atomic<bool>* cancelled = nullptr);

}  // namespace lapidary::serve
