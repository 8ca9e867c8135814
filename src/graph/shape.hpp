// The architecture of one Gemma 4 text model, as far as it decides which graph is built. Two checkpoints with equal
// Shapes run through the same graph.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace lapidary::graph {

inline constexpr std::int32_t kMaxLayers = 128;
inline constexpr std::int32_t kMaxHidden = 65536;
inline constexpr std::int32_t kMaxDFlashLayers = 16;
inline constexpr std::int32_t kMaxDFlashBlock = 16;
inline constexpr std::int32_t kMaxTaps = 16;

enum class LayerKind : std::uint8_t { sliding, full };

// Rotary embedding of one layer kind: frequency i of a head is theta^(-2i/D) / factor for i < int(partial * D / 2), else 0.
struct Rope {
  double theta = 10000.0;
  double partial = 1.0;  // fraction of the pairs that rotate; 1 for the default type
  double factor = 1.0;

  bool operator==(const Rope&) const = default;
};

struct LayerShape {
  LayerKind kind = LayerKind::sliding;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t intermediate = 0;  // width of the dense MLP
  std::int32_t kv_layer = 0;      // the layer whose K/V this one reads; itself when it owns them
  bool values_are_keys = false;   // no v_proj: V comes from the raw k_proj output

  bool operator==(const LayerShape&) const = default;
};

struct Shape {
  std::int32_t vocab = 0;
  std::int32_t hidden = 0;
  std::int32_t heads = 0;          // query heads, the same in every layer
  std::int32_t window = 0;         // keys a sliding layer sees, the token itself included
  std::int32_t ple_width = 0;      // per-layer embeddings: 0 = none
  std::int32_t ple_vocab = 0;
  std::int32_t experts = 0;        // 0 = no mixture of experts
  std::int32_t experts_used = 0;
  std::int32_t expert_width = 0;
  std::int32_t max_positions = 0;
  bool bidirectional_images = false;
  float norm_epsilon = 1e-6f;
  float softcap = 0.0f;            // 0 = none
  Rope rope[2];                    // by LayerKind
  std::int32_t layer_count = 0;
  std::array<LayerShape, kMaxLayers> layers{};  // those from layer_count on are default values

  constexpr std::span<const LayerShape> each_layer() const { return std::span(layers).first(layer_count); }

  bool operator==(const Shape&) const = default;
};

// The MTP drafter that belongs to a target.
struct AssistantShape {
  Shape text;                       // its layers own no K/V: kv_layer is -1
  std::int32_t target_hidden = 0;
  std::int32_t centroids = 0;       // 0 = dense head
  std::int32_t centroids_used = 0;

  bool operator==(const AssistantShape&) const = default;
};

struct DFlashLayer {
  LayerKind kind = LayerKind::full;
  bool causal = false;  // rows of a block see only the rows before them, not those after

  bool operator==(const DFlashLayer&) const = default;
};

// The DFlash drafter that belongs to a target: a block of drafts in one run.
struct DFlashShape {
  std::int32_t vocab = 0;
  std::int32_t hidden = 0;
  std::int32_t heads = 0;          // query heads
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t intermediate = 0;
  std::int32_t window = 0;         // keys a sliding layer sees, the token itself included; 0 = there is no such layer
  std::int32_t block = 0;          // rows of its longest block, the bonus token's included
  std::int32_t mask_token = 0;
  std::int32_t target_layers = 0;
  std::int32_t max_positions = 0;  // 0 = the config does not say
  float norm_epsilon = 1e-6f;
  float softcap = 0.0f;            // 0 = none
  double rope_theta = 0.0;
  std::int32_t layer_count = 0;
  std::array<DFlashLayer, kMaxDFlashLayers> layers{};  // those from layer_count on are default values
  std::int32_t tap_count = 0;
  std::array<std::int32_t, kMaxTaps> taps{};           // target layers whose outputs it reads, ascending as the columns of fc

  constexpr std::span<const DFlashLayer> each_layer() const { return std::span(layers).first(layer_count); }
  constexpr std::span<const std::int32_t> each_tap() const { return std::span(taps).first(tap_count); }

  bool operator==(const DFlashShape&) const = default;
};

}  // namespace lapidary::graph
