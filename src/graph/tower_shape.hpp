// The architecture of the towers, which make soft tokens of pictures and sounds, as far as it decides which steps are built.
#pragma once

#include <array>
#include <cstdint>

namespace lapidary::graph {

// What a tower perceives.
enum class Sense : std::uint8_t { vision, audio };

// A picture is cut into patches of `patch` x `patch` pixels. With layers: a vision transformer, of whose rows pool x pool become one
// soft token. Without: patches become soft tokens one by one.
struct VisionShape {
  std::int32_t hidden = 0;
  std::int32_t layer_count = 0;
  std::int32_t heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t intermediate = 0;
  std::int32_t patch = 0;         // pixels
  std::int32_t pool = 1;          // patches
  std::int32_t positions = 0;     // per axis, that have an embedding
  double rope_theta = 0.0;
  float norm_epsilon = 1e-6f;
  bool clipped = false;           // matrices come with bounds
  bool standardised = false;      // pooled rows: bias and scale

  bool operator==(const VisionShape&) const = default;
};

// With layers: a conformer over spectra of `input` bands. Without: frames of `input` samples become soft tokens one by one.
struct AudioShape {
  std::int32_t input = 0;
  std::int32_t hidden = 0;
  std::int32_t layer_count = 0;
  std::int32_t heads = 0;
  std::array<std::int32_t, 2> channels{};  // of the convolutions that halve frames and bands
  std::int32_t kernel = 0;                 // frames that the convolution of a layer sees
  std::int32_t window = 0;                 // frames that attention sees, the row's own included
  std::int32_t output = 0;                 // width before the projector
  float logit_cap = 0.0f;
  float residual_weight = 0.0f;            // of the feed-forward halves
  float norm_epsilon = 1e-6f;
  bool clipped = false;

  bool operator==(const AudioShape&) const = default;
};

}  // namespace lapidary::graph
