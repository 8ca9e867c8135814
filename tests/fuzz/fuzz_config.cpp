// Any bytes as config.json: an Error, or a shape that later stages may rely on.
#include <cstdint>
#include <cstdlib>

#include "checkpoint/config.hpp"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_dflash(const lapidary::graph::DFlashShape& shape) {
  check(shape.layer_count >= 1 && shape.layer_count <= lapidary::graph::kMaxDFlashLayers);
  check(shape.hidden > 0 && shape.vocab > 0 && shape.intermediate > 0 && shape.norm_epsilon > 0 && shape.rope_theta > 0);
  check(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0 && shape.head_dim > 0 && shape.head_dim % 2 == 0);
  check(shape.block >= 2 && shape.block <= lapidary::graph::kMaxDFlashBlock && shape.mask_token >= 0 && shape.mask_token < shape.vocab);
  check(shape.tap_count >= 1 && shape.tap_count <= lapidary::graph::kMaxTaps);
  for (int i = 0; i < shape.tap_count; ++i)
    check(shape.taps[i] >= 0 && shape.taps[i] < shape.target_layers && (i == 0 || shape.taps[i - 1] < shape.taps[i]));
  for (const auto& layer : shape.each_layer()) check(layer.kind == lapidary::graph::LayerKind::full || shape.window >= shape.block);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const lapidary::Config config =
        lapidary::parse_config(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    if (config.dflash) {
      check_dflash(*config.dflash);
      return 0;
    }
    const auto& shape = config.shape;
    check(shape.layer_count >= 1 && shape.layer_count <= lapidary::graph::kMaxLayers);
    check(shape.hidden > 0 && shape.vocab > 0 && shape.window > 0 && shape.max_positions > 0 && shape.norm_epsilon > 0);
    check(shape.experts_used <= shape.experts && (shape.experts == 0 || (shape.experts_used > 0 && shape.expert_width > 0)));
    check(shape.ple_width == 0 || shape.ple_vocab >= shape.vocab);
    for (int i = 0; i < shape.layer_count; ++i) {
      const auto& layer = shape.layers[i];
      check(layer.kv_heads > 0 && shape.heads % layer.kv_heads == 0);
      check(layer.head_dim > 0 && layer.head_dim % 2 == 0 && layer.intermediate > 0);
      if (config.assistant) {
        check(layer.kv_layer == -1);
        continue;
      }
      check(layer.kv_layer >= 0 && layer.kv_layer <= i);
      const auto& source = shape.layers[layer.kv_layer];
      check(source.kv_layer == layer.kv_layer && source.kind == layer.kind);
      check(source.kv_heads == layer.kv_heads && source.head_dim == layer.head_dim);
    }
    if (config.assistant && config.assistant->centroids > 0) check(shape.vocab % config.assistant->centroids == 0);
  } catch (const lapidary::Error&) {
  }
  return 0;
}
