// The parts parse_config is put together from; not for use outside this folder.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/config.hpp"
#include "checkpoint/json.hpp"

namespace lapidary {

// Far above every published model, low enough that the size of any tensor fits 64 bits and of any row 32.
inline constexpr std::int32_t kMaxVocab = 1 << 22;
inline constexpr std::int32_t kMaxHeads = 1024;
inline constexpr std::int32_t kMaxHeadDim = 2048;
inline constexpr std::int32_t kMaxIntermediate = 1 << 18;
inline constexpr std::int32_t kMaxPositions = 1 << 24;
inline constexpr std::int32_t kVector = 8;  // kernels take heads and per-layer rows in vectors of this many numbers

enum class TextRole { model, assistant };

// `layer_types`, one for each of so many layers; empty where the file has none.
std::vector<graph::LayerKind> read_layer_types(const JsonObject& text, std::int32_t layers);
std::optional<std::int32_t> optional_head_dim(const JsonObject& object, std::string_view key);

// The text model's object: `text_config`, or the whole file of a text-only export.
graph::Shape read_text_shape(const JsonObject& text, TextRole role);

// Whether the file is that of a DFlash drafter. Refuses its relatives: DSpark, DFlash2 and the layout of speculators.
bool is_dflash(const JsonObject& root);
graph::DFlashShape read_dflash_shape(const JsonObject& root);

graph::VisionShape read_vision_shape(const JsonObject& vision);  // vision_config
graph::AudioShape read_audio_shape(const JsonObject& audio);     // audio_config

// `quantization`, or its copy `quantization_config`.
std::optional<Quantization> read_quantization(const JsonObject& root);

}  // namespace lapidary
