// vision_config and audio_config.
#include "checkpoint/config_parts.hpp"

namespace lapidary {

namespace {

using graph::AudioShape;
using graph::VisionShape;

constexpr std::int32_t kMaxTowerHidden = 16384;
constexpr std::int32_t kMaxTowerHeads = 256;
constexpr std::int32_t kMaxTowerPositions = 65536;
constexpr std::int32_t kBands = 128;  // of a spectrum
constexpr double kUsualVisionTheta = 100.0;

std::int32_t width(const JsonObject& object, std::string_view key) {
  const std::int32_t value = object.integer(key, kVector, kMaxTowerHidden);
  if (value % kVector != 0) object.reject(ErrorKind::bad_value, key, "a multiple of 8");
  return value;
}

float epsilon_of(const JsonObject& object) {
  return static_cast<float>(object.optional_number("rms_norm_eps", 1e-12, 1.0).value_or(1e-6));
}

void expect_text(const JsonObject& object, std::string_view key, std::string_view expected) {
  if (object.optional_text(key).value_or(expected) != expected) object.reject(ErrorKind::unsupported, key, expected);
}

void read_encoder(const JsonObject& vision, VisionShape& shape) {
  expect_text(vision, "hidden_activation", "gelu_pytorch_tanh");
  if (vision.optional_boolean("attention_bias").value_or(false)) vision.reject(ErrorKind::unsupported, "attention_bias", "false");
  shape.hidden = width(vision, "hidden_size");
  shape.layer_count = vision.integer("num_hidden_layers", 1, graph::kMaxLayers);
  shape.heads = vision.integer("num_attention_heads", 1, kMaxTowerHeads);
  if (vision.optional_integer("num_key_value_heads", 1, kMaxTowerHeads).value_or(shape.heads) != shape.heads)
    vision.reject(ErrorKind::unsupported, "num_key_value_heads", "as many as attention heads, " + std::to_string(shape.heads));
  shape.head_dim = vision.optional_integer("head_dim", kVector, 256).value_or(shape.hidden / shape.heads);
  if (shape.head_dim % kVector != 0 || shape.head_dim == 0) vision.reject(ErrorKind::bad_value, "head_dim", "a multiple of 8");
  shape.intermediate = width(vision, "intermediate_size");
  shape.positions = vision.optional_integer("position_embedding_size", 1, kMaxTowerPositions).value_or(10240);
  shape.rope_theta = kUsualVisionTheta;
  if (const auto rope = vision.optional_object("rope_parameters"))
    shape.rope_theta = rope->optional_number("rope_theta", 1.0, 1e12).value_or(shape.rope_theta);
  shape.clipped = vision.optional_boolean("use_clipped_linears").value_or(false);
  shape.standardised = vision.optional_boolean("standardize").value_or(false);
}

void read_conformer(const JsonObject& audio, AudioShape& shape) {
  expect_text(audio, "hidden_act", "silu");
  shape.input = kBands;
  shape.hidden = width(audio, "hidden_size");
  shape.layer_count = audio.integer("num_hidden_layers", 1, graph::kMaxLayers);
  shape.heads = audio.integer("num_attention_heads", 1, kMaxTowerHeads);
  if (shape.hidden % (shape.heads * kVector) != 0)
    audio.reject(ErrorKind::bad_value, "num_attention_heads", "a number that cuts hidden_size into multiples of 8");
  const auto channels = audio.optional_array("subsampling_conv_channels");
  std::size_t count = 0;
  if (channels)
    for (const auto channel : *channels) {
      std::int64_t value = 0;
      if (count == 2 || channel.get(value) || value < kVector || value > 1024 || value % kVector != 0) {
        count = 0;
        break;
      }
      shape.channels[count++] = static_cast<std::int32_t>(value);
    }
  if (count != 2) audio.reject(ErrorKind::bad_value, "subsampling_conv_channels", "two multiples of 8");
  shape.kernel = audio.optional_integer("conv_kernel_size", 1, 32).value_or(5);
  if (audio.optional_integer("attention_context_right", 0, 1024).value_or(0) != 0)
    audio.reject(ErrorKind::unsupported, "attention_context_right", "0");
  shape.window = audio.optional_integer("attention_context_left", 2, 65).value_or(13) - 1;
  shape.logit_cap = static_cast<float>(audio.optional_number("attention_logit_cap", 1e-3, 1e6).value_or(50.0));
  shape.residual_weight = static_cast<float>(audio.optional_number("residual_weight", 1e-6, 1e6).value_or(0.5));
  shape.output = width(audio, "output_proj_dims");
  shape.clipped = audio.optional_boolean("use_clipped_linears").value_or(true);
}

}  // namespace

VisionShape read_vision_shape(const JsonObject& vision) {
  VisionShape shape;
  const std::string_view type = vision.optional_text("model_type").value_or("gemma4_vision");
  shape.norm_epsilon = epsilon_of(vision);
  const auto patch = vision.optional_integer("patch_size", 1, 64).value_or(16);
  const auto pool = vision.optional_integer("pooling_kernel_size", 1, 8).value_or(3);
  if (type == "gemma4_vision") {
    shape.patch = patch;
    shape.pool = pool;
    read_encoder(vision, shape);
  } else if (type == "gemma4_unified_vision") {
    shape.patch = patch * pool;
    shape.hidden = width(vision, "mm_embed_dim");
    shape.positions = vision.optional_integer("mm_posemb_size", 1, kMaxTowerPositions).value_or(1120);
  } else {
    vision.reject(ErrorKind::unsupported, "model_type", "gemma4_vision or gemma4_unified_vision");
  }
  return shape;
}

AudioShape read_audio_shape(const JsonObject& audio) {
  AudioShape shape;
  const std::string_view type = audio.optional_text("model_type").value_or("gemma4_audio");
  shape.norm_epsilon = epsilon_of(audio);
  if (type == "gemma4_audio") {
    read_conformer(audio, shape);
  } else if (type == "gemma4_unified_audio") {
    shape.input = audio.optional_integer("audio_embed_dim", kVector, kMaxTowerHidden).value_or(640);
    if (shape.input % kVector != 0) audio.reject(ErrorKind::bad_value, "audio_embed_dim", "a multiple of 8");
  } else {
    audio.reject(ErrorKind::unsupported, "model_type", "gemma4_audio or gemma4_unified_audio");
  }
  return shape;
}

}  // namespace lapidary
