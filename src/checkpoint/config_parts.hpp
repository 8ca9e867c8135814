// The parts parse_config is put together from; not for use outside this folder.
#pragma once

#include <optional>

#include "checkpoint/config.hpp"
#include "checkpoint/json.hpp"

namespace lapidary {

enum class TextRole { model, assistant };

// The text model's object: `text_config`, or the whole file of a text-only export.
graph::Shape read_text_shape(const JsonObject& text, TextRole role);

graph::VisionShape read_vision_shape(const JsonObject& vision);  // vision_config
graph::AudioShape read_audio_shape(const JsonObject& audio);     // audio_config

// `quantization`, or its copy `quantization_config`.
std::optional<Quantization> read_quantization(const JsonObject& root);

}  // namespace lapidary
