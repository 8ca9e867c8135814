// config.json of a DFlash drafter, in z-lab's layout -> graph::DFlashShape, with every spelling of it.
#include <algorithm>

#include "checkpoint/config_parts.hpp"

namespace lapidary {

namespace {

using graph::DFlashLayer;
using graph::DFlashShape;
using graph::LayerKind;

constexpr std::string_view kArchitecture = "DFlashDraftModel";
constexpr std::string_view kLayersAs = "qwen3";  // model_type
constexpr std::string_view kNested = "dflash_config";

// Keys of dflash_config may also stand on top; the nested one counts.
std::int32_t nested_integer(const JsonObject& root, std::string_view key, std::int32_t least, std::int32_t most) {
  if (const auto nested = root.optional_object(kNested)) {
    if (const auto number = nested->optional_integer(key, least, most)) return *number;
  }
  if (const auto number = root.optional_integer(key, least, most)) return *number;
  return root.object(kNested).integer(key, least, most);
}

void read_taps(const JsonObject& object, simdjson::dom::array taps, DFlashShape& shape) {
  constexpr std::string_view key = "target_layer_ids";
  if (taps.size() < 1 || taps.size() > graph::kMaxTaps) {
    object.reject(ErrorKind::bad_value, key, "1 to " + std::to_string(graph::kMaxTaps) + " layers");
  }
  std::int64_t least = 0;
  for (const auto tap : taps) {
    std::int64_t layer = 0;
    const std::string expected =
        "layers of the target, from 0 to " + std::to_string(shape.target_layers - 1) + " and ascending";
    if (!tap.is_int64()) object.reject(ErrorKind::wrong_type, key, expected, describe(tap));
    if (tap.get(layer) || layer < least || layer >= shape.target_layers) {
      object.reject(ErrorKind::bad_value, key, expected, describe(tap));
    }
    least = layer + 1;
    shape.taps[shape.tap_count++] = static_cast<std::int32_t>(layer);
  }
}

void read_nested_taps(const JsonObject& root, DFlashShape& shape) {
  constexpr std::string_view key = "target_layer_ids";
  if (const auto nested = root.optional_object(kNested)) {
    if (const auto taps = nested->optional_array(key)) return read_taps(*nested, *taps, shape);
  }
  if (const auto taps = root.optional_array(key)) return read_taps(root, *taps, shape);
  root.object(kNested).reject(ErrorKind::missing_key, key, "an array");
}

// What relatives of DFlash add to the maths; a file may spell that it does not.
void check_additions(const JsonObject& object) {
  for (const auto& [key, value] : object.fields()) {
    const bool factor = key == "input_embedding_scale" || key == "output_multiplier";
    const bool part = key == "sample_from_anchor" || key == "use_swa" || key == "swa_window_size" ||
                      key == "attention_sink_bias" || key.starts_with("conv_") || key.starts_with("selector_");
    if ((!factor && !part) || value.is_null()) continue;
    double number = -1.0;
    bool flag = true;
    if (factor && !value.get(number) && number == 1.0) continue;
    if (part && ((!value.get(flag) && !flag) || (!value.get(number) && number == 0.0))) continue;
    object.reject(ErrorKind::unsupported, key, factor ? "1" : "false or 0", describe(value));
  }
}

void check_dflash_choices(const JsonObject& root) {
  if (root.optional_text("model_type").value_or(kLayersAs) != kLayersAs) {
    root.reject(ErrorKind::unsupported, "model_type", std::string(kLayersAs) + " for " + std::string(kArchitecture));
  }
  if (root.optional_text("hidden_act").value_or("silu") != "silu") root.reject(ErrorKind::unsupported, "hidden_act", "silu");
  for (const std::string_view key : {"attention_bias", "mlp_bias"}) {
    if (root.optional_boolean(key).value_or(false)) root.reject(ErrorKind::unsupported, key, "false");
  }
  check_additions(root);
  if (const auto nested = root.optional_object(kNested)) check_additions(*nested);
}

void read_heads(const JsonObject& root, DFlashShape& shape) {
  shape.heads = root.integer("num_attention_heads", 1, kMaxHeads);
  shape.kv_heads = root.integer("num_key_value_heads", 1, kMaxHeads);
  if (shape.heads % shape.kv_heads != 0) {
    root.reject(ErrorKind::bad_value, "num_key_value_heads", "a divisor of the " + std::to_string(shape.heads) + " heads");
  }
  const auto head_dim = optional_head_dim(root, "head_dim");
  shape.head_dim = head_dim.value_or(shape.hidden / shape.heads);
  if (!head_dim && (shape.hidden % (shape.heads * kVector) != 0 || shape.head_dim > kMaxHeadDim)) {
    root.reject(ErrorKind::missing_key, "head_dim", "a multiple of 8");
  }
}

double read_theta(const JsonObject& root) {
  constexpr double least = 1.0, most = 1e12;
  if (root.optional_object("rope_scaling")) root.reject(ErrorKind::unsupported, "rope_scaling", "null");
  std::optional<double> theta;
  if (const auto parameters = root.optional_object("rope_parameters")) {
    if (parameters->optional_text("rope_type").value_or("default") != "default") {
      parameters->reject(ErrorKind::unsupported, "rope_type", "default");
    }
    for (const auto& [key, value] : parameters->fields()) {
      if (key != "rope_type" && key != "rope_theta") {
        parameters->reject(ErrorKind::unsupported, key, "only rope_type and rope_theta", describe(value));
      }
    }
    theta = parameters->optional_number("rope_theta", least, most);
  }
  if (!theta) theta = root.optional_number("rope_theta", least, most);
  if (!theta) root.reject(ErrorKind::missing_key, "rope_theta", "a number");
  return *theta;
}

// Of a block's rows, where the file decides it for all layers.
std::optional<bool> read_causal(const JsonObject& root) {
  if (const auto causal = root.optional_boolean("is_causal")) return causal;
  const auto nested = root.optional_object(kNested);
  return nested ? nested->optional_boolean("causal") : std::nullopt;
}

void read_layers(const JsonObject& root, DFlashShape& shape) {
  const auto causal = read_causal(root);
  const auto types = read_layer_types(root, shape.layer_count);
  bool sliding = false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    shape.layers[i].kind = types[i];
    sliding |= types[i] == LayerKind::sliding;
  }
  for (DFlashLayer& layer : std::span(shape.layers).first(shape.layer_count)) {
    layer.causal = causal.value_or(layer.kind == LayerKind::sliding);
  }
  if (!sliding) return;

  if (!root.optional_boolean("use_sliding_window").value_or(true)) {
    root.reject(ErrorKind::unsupported, "use_sliding_window", "true with a layer of sliding_attention");
  }
  shape.window = root.integer("sliding_window", 1, kMaxPositions);
  if (shape.window < shape.block) {  // implementations disagree about the window inside a block
    root.reject(ErrorKind::unsupported, "sliding_window", "at least the block's " + std::to_string(shape.block) + " rows");
  }
}

}  // namespace

bool is_dflash(const JsonObject& root) {
  if (root.optional_text("speculators_model_type")) {
    root.reject(ErrorKind::unsupported, "speculators_model_type", "a drafter in z-lab's layout");
  }
  const auto architectures = root.optional_array("architectures");
  if (!architectures) return false;
  for (const auto architecture : *architectures) {
    std::string_view name;
    if (architecture.get(name)) continue;
    if (name == kArchitecture) return true;
    if (name.find("DFlash") != name.npos || name.find("DSpark") != name.npos) {
      root.reject(ErrorKind::unsupported, "architectures", kArchitecture, describe(architecture));
    }
  }
  return false;
}

DFlashShape read_dflash_shape(const JsonObject& root) {
  DFlashShape shape;
  check_dflash_choices(root);
  shape.vocab = root.integer("vocab_size", 1, kMaxVocab);
  shape.hidden = root.integer("hidden_size", 1, graph::kMaxHidden);
  shape.intermediate = root.integer("intermediate_size", 1, kMaxIntermediate);
  shape.layer_count = root.integer("num_hidden_layers", 1, graph::kMaxDFlashLayers);
  shape.target_layers = root.integer("num_target_layers", 1, graph::kMaxLayers);
  shape.max_positions = root.optional_integer("max_position_embeddings", 1, kMaxPositions).value_or(0);
  shape.norm_epsilon = static_cast<float>(root.optional_number("rms_norm_eps", 1e-12, 1.0).value_or(shape.norm_epsilon));
  shape.softcap = static_cast<float>(root.optional_number("final_logit_softcapping", 0.0, 1e6).value_or(0.0));
  shape.block = nested_integer(root, "block_size", 2, graph::kMaxDFlashBlock);
  shape.mask_token = nested_integer(root, "mask_token_id", 0, shape.vocab - 1);
  shape.rope_theta = read_theta(root);
  read_nested_taps(root, shape);
  read_heads(root, shape);
  read_layers(root, shape);
  return shape;
}

}  // namespace lapidary
