#include "checkpoint/config.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/config_parts.hpp"

namespace lapidary {

namespace {

struct ModelType {
  std::string_view name;
  TextRole role;
  bool text_only;  // the file is the text config itself
};
constexpr std::array kModelTypes = {
    ModelType{"gemma4", TextRole::model, false},
    ModelType{"gemma4_unified", TextRole::model, false},
    ModelType{"gemma4_text", TextRole::model, true},
    ModelType{"gemma4_unified_text", TextRole::model, true},
    ModelType{"gemma4_assistant", TextRole::assistant, false},
    ModelType{"gemma4_unified_assistant", TextRole::assistant, false},
};

const ModelType& read_model_type(const JsonObject& root) {
  const auto name = root.text("model_type");
  const auto found = std::ranges::find(kModelTypes, name, &ModelType::name);
  if (found == kModelTypes.end()) {
    root.reject(ErrorKind::unsupported, "model_type",
                "gemma4, gemma4_unified, gemma4_text, gemma4_unified_text, gemma4_assistant or gemma4_unified_assistant, "
                "or architectures [\"DFlashDraftModel\"]");
  }
  return *found;
}

JsonObject text_config_of(const JsonObject& root) {
  JsonObject text = root.object("text_config");
  const auto name = text.optional_text("model_type");
  if (name && *name != "gemma4_text" && *name != "gemma4_unified_text") {
    text.reject(ErrorKind::unsupported, "model_type", "gemma4_text or gemma4_unified_text");
  }
  return text;
}

graph::AssistantShape read_assistant(const JsonObject& root, const graph::Shape& text) {
  graph::AssistantShape assistant{.text = text, .target_hidden = root.integer("backbone_hidden_size", 1, graph::kMaxHidden)};
  if (root.optional_boolean("use_ordered_embeddings").value_or(false)) {
    assistant.centroids = root.integer("num_centroids", 1, text.vocab);
    assistant.centroids_used = root.integer("centroid_intermediate_top_k", 1, assistant.centroids);
    if (text.vocab % assistant.centroids != 0) {
      root.reject(ErrorKind::bad_value, "num_centroids", "a divisor of the vocabulary of " + std::to_string(text.vocab));
    }
  }
  return assistant;
}

}  // namespace

Config parse_config(std::string_view json, std::string_view where) {
  const JsonDocument document(json, where);
  const JsonObject root = document.root();
  Config config;
  if (is_dflash(root)) {
    config.model_type = root.optional_text("model_type").value_or("");
    config.dflash = read_dflash_shape(root);
    config.quantization = read_quantization(root);
    return config;
  }

  const ModelType& type = read_model_type(root);
  config.model_type = type.name;
  if (!root.optional_boolean("tie_word_embeddings").value_or(true)) {
    root.reject(ErrorKind::unsupported, "tie_word_embeddings", "true");
  }
  config.shape = read_text_shape(type.text_only ? root : text_config_of(root), type.role);
  if (type.role == TextRole::assistant) {
    config.assistant = read_assistant(root, config.shape);
  } else if (!type.text_only) {
    if (const auto vision = root.optional_object("vision_config")) config.vision = read_vision_shape(*vision);
    if (const auto audio = root.optional_object("audio_config")) config.audio = read_audio_shape(*audio);
  }
  config.quantization = read_quantization(root);
  return config;
}

}  // namespace lapidary
