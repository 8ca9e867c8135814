// Which template a checkpoint carries. Converted checkpoints reformat and embed the file, so it is told by the features that
// make a difference, not by its bytes.
#include <filesystem>
#include <optional>

#include "checkpoint/checkpoint.hpp"
#include "text/chat.hpp"

namespace lapidary::text {

namespace {

// chat_template in tokenizer_config.json: the template, or a list of {name, template}.
std::optional<std::string> embedded_template(const Value& tokenizer_config) {
  const Value* found = tokenizer_config.find("chat_template");
  if (found && found->array()) {
    for (const Value& entry : *found->array()) {
      const Value* name = entry.find("name");
      if (name && *name == Value("default")) {
        found = entry.find("template");
        break;
      }
    }
  }
  if (!found || !found->string()) return std::nullopt;
  return *found->string();
}

std::optional<std::string> template_source(const std::string& folder) {
  const std::string own_file = folder + "/chat_template.jinja";
  std::error_code unknown;  // as good as absent
  if (std::filesystem::exists(own_file, unknown)) return read_text_file(own_file);
  const std::string config_file = folder + "/tokenizer_config.json";
  if (!std::filesystem::exists(config_file, unknown)) return std::nullopt;
  return embedded_template(parse_json(read_text_file(config_file), config_file));
}

std::optional<Revision> revision_of(std::string_view source) {
  const auto has = [&](std::string_view part) { return source.find(part) != source.npos; };
  if (!has("<|turn>") || !has("format_tool_response_block")) return std::nullopt;
  if (has("preserve_thinking")) return Revision::canonical;
  return has("captured_content") ? Revision::may : Revision::april;
}

}  // namespace

Template choose_template(const std::string& folder, bool per_layer_embeddings) {
  const std::optional<std::string> source = template_source(folder);
  if (const auto revision = source ? revision_of(*source) : std::nullopt) {
    const bool empty_thought = source->find("<|channel>thought\\n<channel|>") != source->npos;
    return {empty_thought ? Family::large : Family::small, *revision};
  }
  return {per_layer_embeddings ? Family::small : Family::large, Revision::canonical};
}

}  // namespace lapidary::text
