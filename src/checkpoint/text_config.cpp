// The text model's part of config.json -> graph::Shape, with every rule about missing keys and older spellings applied.
#include <bitset>
#include <charconv>

#include "checkpoint/config_parts.hpp"

namespace lapidary {

namespace {

using graph::LayerKind;
using graph::LayerShape;
using graph::Rope;
using graph::Shape;

constexpr std::int32_t kMaxPleWidth = 8192;
constexpr std::int32_t kMaxExperts = 1024;

constexpr std::string_view kSliding = "sliding_attention";
constexpr std::string_view kFull = "full_attention";
constexpr std::int32_t kDefaultGlobalHeadDim = 512;
constexpr std::int32_t kDefaultPattern = 6;  // five sliding layers, one full

struct NamedRope {
  std::string_view key;   // in rope_parameters
  std::string_view type;  // what counts when the file does not say
  Rope rope;
};
constexpr NamedRope kDefaultRopes[2] = {{kSliding, "default", {1e4, 1.0, 1.0}}, {kFull, "proportional", {1e6, 0.25, 1.0}}};

std::span<LayerShape> layers_of(Shape& shape) { return std::span(shape.layers).first(shape.layer_count); }

void read_layer_kinds(const JsonObject& text, Shape& shape) {
  const auto layers = layers_of(shape);
  const auto types = read_layer_types(text, shape.layer_count);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerKind missing = (i + 1) % kDefaultPattern == 0 ? LayerKind::full : LayerKind::sliding;
    layers[i].kind = types.empty() ? missing : types[i];
  }
  layers.back().kind = LayerKind::full;
}

// The newer generation of configs: {"5": {"head_dim": 512, "num_key_value_heads": 4}, ...}
void apply_per_layer_config(const JsonObject& per_layer, Shape& shape) {
  std::bitset<graph::kMaxLayers> seen;
  for (const auto& field : per_layer.fields()) {
    std::int32_t index = -1;
    const char* const end = field.key.data() + field.key.size();
    const auto [stop, error] = std::from_chars(field.key.data(), end, index);
    if (error != std::errc{} || stop != end || index < 0 || index >= shape.layer_count || seen[index]) {
      per_layer.reject(ErrorKind::bad_value, field.key, "the number of a layer, once", "\"" + printable(field.key) + "\"");
    }
    seen.set(index);

    const JsonObject entry = per_layer.object_at(field.key, field.value);
    for (const auto& [key, value] : entry.fields()) {
      if (key != "head_dim" && key != "num_key_value_heads") {
        entry.reject(ErrorKind::unsupported, key, "only head_dim and num_key_value_heads to differ between layers",
                     describe(value));
      }
    }
    LayerShape& layer = shape.layers[index];
    layer.head_dim = optional_head_dim(entry, "head_dim").value_or(layer.head_dim);
    layer.kv_heads = entry.optional_integer("num_key_value_heads", 1, kMaxHeads).value_or(layer.kv_heads);
  }
}

void read_heads(const JsonObject& text, bool values_are_keys, Shape& shape) {
  shape.heads = text.integer("num_attention_heads", 1, kMaxHeads);
  const auto kv_heads = text.integer("num_key_value_heads", 1, kMaxHeads);
  const auto head_dim = optional_head_dim(text, "head_dim");
  if (!head_dim) text.reject(ErrorKind::missing_key, "head_dim", "a multiple of 8");

  const auto per_layer = text.optional_object("per_layer_config");
  const auto full_head_dim =
      optional_head_dim(text, "global_head_dim").value_or(per_layer ? *head_dim : kDefaultGlobalHeadDim);
  const auto global_kv_heads = text.optional_integer("num_global_key_value_heads", 1, kMaxHeads);
  const auto full_kv_heads = values_are_keys ? global_kv_heads.value_or(kv_heads) : kv_heads;
  for (LayerShape& layer : layers_of(shape)) {
    const bool full = layer.kind == LayerKind::full;
    layer.head_dim = full ? full_head_dim : *head_dim;
    layer.kv_heads = full ? full_kv_heads : kv_heads;
  }
  if (per_layer) apply_per_layer_config(*per_layer, shape);

  for (const LayerShape& layer : layers_of(shape)) {
    if (shape.heads % layer.kv_heads != 0) {
      text.reject(ErrorKind::bad_value, "num_attention_heads",
                  "a multiple of every layer's key/value heads, here " + std::to_string(layer.kv_heads));
    }
  }
}

void read_kv_owners(const JsonObject& text, bool values_are_keys, std::int32_t first_shared, Shape& shape) {
  std::int32_t last_own[2] = {-1, -1};  // by LayerKind
  for (std::int32_t i = 0; i < shape.layer_count; ++i) {
    LayerShape& layer = shape.layers[i];
    std::int32_t& source = last_own[static_cast<int>(layer.kind)];
    if (i < first_shared) {
      source = i;
      layer.values_are_keys = values_are_keys && layer.kind == LayerKind::full;
    } else if (source < 0) {
      text.reject(ErrorKind::bad_value, "num_kv_shared_layers",
                  "a layer with its own K/V of the kind of layer " + std::to_string(i) + " below the shared ones");
    } else if (layer.head_dim != shape.layers[source].head_dim || layer.kv_heads != shape.layers[source].kv_heads) {
      text.reject(ErrorKind::bad_value, "num_kv_shared_layers",
                  "layer " + std::to_string(i) + " to have the K/V shape of layer " + std::to_string(source));
    }
    layer.kv_layer = source;
  }
}

// An assistant reads its target's K/V in every layer, which a file may also spell as 0.
void check_assistant_sharing(const JsonObject& text, Shape& shape) {
  const auto shared = text.optional_integer("num_kv_shared_layers", 0, shape.layer_count).value_or(0);
  if (shared != 0 && shared != shape.layer_count) {
    text.reject(ErrorKind::unsupported, "num_kv_shared_layers", "all layers of an assistant");
  }
  for (LayerShape& layer : layers_of(shape)) layer.kv_layer = -1;
  for (const std::string_view key : {"use_double_wide_mlp", "enable_moe_block"}) {
    if (text.optional_boolean(key).value_or(false)) text.reject(ErrorKind::unsupported, key, "false in an assistant");
  }
  if (shape.ple_width != 0) text.reject(ErrorKind::unsupported, "hidden_size_per_layer_input", "0 in an assistant");
}

void read_experts(const JsonObject& text, Shape& shape) {
  if (!text.optional_boolean("enable_moe_block").value_or(false)) return;
  shape.experts = text.integer("num_experts", 1, kMaxExperts);
  shape.experts_used = text.integer("top_k_experts", 1, shape.experts);
  shape.expert_width = text.integer("moe_intermediate_size", 1, kMaxIntermediate);
}

void read_per_layer_embeddings(const JsonObject& text, Shape& shape) {
  shape.ple_width = text.optional_integer("hidden_size_per_layer_input", 0, kMaxPleWidth).value_or(0);
  if (shape.ple_width == 0) return;
  if (shape.ple_width % kVector != 0) text.reject(ErrorKind::bad_value, "hidden_size_per_layer_input", "a multiple of 8");
  // Every token looks up a row of its own.
  shape.ple_vocab = text.integer("vocab_size_per_layer_input", shape.vocab, kMaxVocab);
}

Rope read_rope(const JsonObject& parameters, const NamedRope& missing) {
  const auto entry = parameters.optional_object(missing.key);
  if (!entry) return missing.rope;
  const auto type = entry->optional_text("rope_type").value_or(missing.type);
  Rope rope = missing.rope;
  rope.theta = entry->optional_number("rope_theta", 1.0, 1e12).value_or(rope.theta);
  if (type == "proportional") {
    rope.partial = entry->optional_number("partial_rotary_factor", 0.0, 1.0).value_or(rope.partial);
    rope.factor = entry->optional_number("factor", 1e-6, 1e6).value_or(rope.factor);
  } else if (type == "default") {
    for (const std::string_view key : {"partial_rotary_factor", "factor"}) {
      if (entry->optional_number(key, 0.0, 1e6).value_or(1.0) != 1.0) {
        entry->reject(ErrorKind::unsupported, key, "1 with rope_type default");
      }
    }
    rope.partial = 1.0;
  } else {
    entry->reject(ErrorKind::unsupported, "rope_type", "default or proportional");
  }
  return rope;
}

void read_ropes(const JsonObject& text, Shape& shape) {
  for (int kind = 0; kind < 2; ++kind) shape.rope[kind] = kDefaultRopes[kind].rope;
  const auto parameters = text.optional_object("rope_parameters");
  if (!parameters) return;
  for (const auto& [key, value] : parameters->fields()) {
    if (key != kSliding && key != kFull) {
      parameters->reject(ErrorKind::unsupported, key, "only sliding_attention and full_attention", describe(value));
    }
  }
  for (int kind = 0; kind < 2; ++kind) shape.rope[kind] = read_rope(*parameters, kDefaultRopes[kind]);
}

bool read_bidirectional_images(const JsonObject& text) {
  const auto attention = text.optional_text("use_bidirectional_attention");
  if (attention && *attention != "vision") {
    text.reject(ErrorKind::unsupported, "use_bidirectional_attention", "null or \"vision\"");
  }
  return attention.has_value();
}

void check_fixed_choices(const JsonObject& text) {
  if (text.optional_text("hidden_activation").value_or("gelu_pytorch_tanh") != "gelu_pytorch_tanh") {
    text.reject(ErrorKind::unsupported, "hidden_activation", "gelu_pytorch_tanh");
  }
  if (!text.optional_boolean("tie_word_embeddings").value_or(true)) {
    text.reject(ErrorKind::unsupported, "tie_word_embeddings", "true");
  }
  if (text.optional_boolean("attention_bias").value_or(false)) {
    text.reject(ErrorKind::unsupported, "attention_bias", "false");
  }
}

}  // namespace

std::vector<LayerKind> read_layer_types(const JsonObject& text, std::int32_t layers) {
  const auto types = text.optional_array("layer_types");
  if (!types) return {};
  if (types->size() != static_cast<std::size_t>(layers)) {
    text.reject(ErrorKind::bad_value, "layer_types", "one entry for each of the " + std::to_string(layers) + " layers");
  }
  std::vector<LayerKind> kinds;
  for (const auto type : *types) {
    const bool full = type.is_string() && type.get_string().value_unsafe() == kFull;
    const bool sliding = type.is_string() && type.get_string().value_unsafe() == kSliding;
    if (!full && !sliding) {
      text.reject(ErrorKind::unsupported, "layer_types", "sliding_attention or full_attention", describe(type));
    }
    kinds.push_back(full ? LayerKind::full : LayerKind::sliding);
  }
  return kinds;
}

std::optional<std::int32_t> optional_head_dim(const JsonObject& object, std::string_view key) {
  const auto head_dim = object.optional_integer(key, kVector, kMaxHeadDim);
  if (head_dim && *head_dim % kVector != 0) object.reject(ErrorKind::bad_value, key, "a multiple of 8");
  return head_dim;
}

Shape read_text_shape(const JsonObject& text, TextRole role) {
  Shape shape;
  check_fixed_choices(text);
  shape.vocab = text.integer("vocab_size", 1, kMaxVocab);
  shape.hidden = text.integer("hidden_size", 1, graph::kMaxHidden);
  shape.layer_count = text.integer("num_hidden_layers", 1, graph::kMaxLayers);
  shape.window = text.integer("sliding_window", 1, kMaxPositions);
  shape.max_positions = text.integer("max_position_embeddings", 1, kMaxPositions);
  shape.norm_epsilon = static_cast<float>(text.optional_number("rms_norm_eps", 1e-12, 1.0).value_or(shape.norm_epsilon));
  shape.softcap = static_cast<float>(text.optional_number("final_logit_softcapping", 0.0, 1e6).value_or(0.0));

  const bool values_are_keys = text.optional_boolean("attention_k_eq_v").value_or(false);
  read_layer_kinds(text, shape);
  read_heads(text, values_are_keys, shape);
  read_ropes(text, shape);
  read_per_layer_embeddings(text, shape);
  const bool bidirectional_images = read_bidirectional_images(text);
  const auto intermediate = text.integer("intermediate_size", 1, kMaxIntermediate);
  for (LayerShape& layer : layers_of(shape)) layer.intermediate = intermediate;

  if (role == TextRole::assistant) {
    check_assistant_sharing(text, shape);
    return shape;
  }

  // An assistant never sees an image, so the flag would only make equal graphs look different there.
  shape.bidirectional_images = bidirectional_images;
  read_experts(text, shape);
  const auto shared = text.optional_integer("num_kv_shared_layers", 0, shape.layer_count).value_or(0);
  const std::int32_t first_shared = shape.layer_count - shared;
  read_kv_owners(text, values_are_keys, first_shared, shape);
  if (text.optional_boolean("use_double_wide_mlp").value_or(false)) {
    for (LayerShape& layer : layers_of(shape).subspan(first_shared)) layer.intermediate *= 2;
  }
  return shape;
}

}  // namespace lapidary
