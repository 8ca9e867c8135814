// config.json of a Gemma 4 model, of its assistant or of its DFlash drafter, read and validated: what comes out can be trusted.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/error.hpp"
#include "checkpoint/storage.hpp"
#include "graph/shape.hpp"
#include "graph/tower_shape.hpp"

namespace lapidary {

struct QuantizedAs {
  Encoding encoding = Encoding::affine;
  std::uint8_t bits = 4;
  std::uint8_t group = 64;
};

// The `quantization` block of an MLX checkpoint.
struct Quantization {
  QuantizedAs everywhere;                                               // modules that have a `.scales` tensor
  std::map<std::string, std::optional<QuantizedAs>, std::less<>> overrides;  // by module path; nullopt = not quantised
};

struct Config {
  std::string model_type;                       // gemma4, gemma4_text, gemma4_unified, gemma4_assistant, ... or qwen3 of DFlash
  graph::Shape shape;                           // of the text model, or of the assistant's own layers
  std::optional<graph::AssistantShape> assistant;  // set for assistants
  std::optional<graph::DFlashShape> dflash;        // set for DFlash drafters, which have nothing else here but `quantization`
  std::optional<graph::VisionShape> vision;        // of the towers, where the model has them
  std::optional<graph::AudioShape> audio;
  std::optional<Quantization> quantization;
};

// `where` names the file in errors; keys are named by their path, e.g. text_config.hidden_size.
Config parse_config(std::string_view json, std::string_view where);

}  // namespace lapidary
