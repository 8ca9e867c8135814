// What the checkpoint's author recommends for generating: generation_config.json, and the stop ids of config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lapidary::decode {

// The values are those of Gemma 4's own files; they hold for whatever a checkpoint does not say.
struct GenerationDefaults {
  float temperature = 1.0f;  // 0 when the file asks for no sampling
  std::int32_t top_k = 64;   // 0 = all
  float top_p = 0.95f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  std::vector<std::int32_t> suppress_tokens;  // ascending, each once, like the next
  std::vector<std::int32_t> eos_tokens;
};

// One generation_config.json. `where` names the file in errors.
GenerationDefaults parse_generation_config(std::string_view json, std::string_view where);

// generation_config.json of a checkpoint folder, if there is one, with the eos ids of config.json added; <eos> of the
// vocabulary, id 1, when neither names any.
GenerationDefaults read_generation_defaults(const std::string& folder);

}  // namespace lapidary::decode
