#include "decode/generation_config.hpp"

#include <algorithm>
#include <filesystem>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/json.hpp"

namespace lapidary::decode {
namespace {

constexpr std::int32_t kEos = 1;
constexpr std::size_t kMaxBytes = 1u << 20;
constexpr char kIds[] = "a token id or a list of them";

void sort_once(std::vector<std::int32_t>& ids) {
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
}

// A token id, a list of them, or nothing.
void add_ids(const JsonObject& root, std::string_view key, std::vector<std::int32_t>& ids) {
  const auto add = [&](simdjson::dom::element value) {
    std::int64_t id = 0;
    if (!value.is_int64() && !value.is_uint64()) root.reject(ErrorKind::wrong_type, key, kIds, lapidary::describe(value));
    if (value.get(id) || id < 0 || id > INT32_MAX) root.reject(ErrorKind::bad_value, key, kIds, lapidary::describe(value));
    ids.push_back(static_cast<std::int32_t>(id));
  };
  int times = 0;
  for (const auto& field : root.fields()) {
    if (field.key != key) continue;
    if (++times > 1) root.reject(ErrorKind::bad_value, key, "the key once", "it twice");
    if (field.value.is_null()) continue;
    if (simdjson::dom::array list; !field.value.get(list)) {
      for (const auto value : list) add(value);
    } else {
      add(field.value);
    }
  }
  sort_once(ids);
}

float number(const JsonObject& root, std::string_view key, double least, double most, float otherwise) {
  const auto value = root.optional_number(key, least, most);
  return value ? static_cast<float>(*value) : otherwise;
}

}  // namespace

GenerationDefaults parse_generation_config(std::string_view json, std::string_view where) {
  const JsonDocument document(json, where);
  const JsonObject root = document.root();
  GenerationDefaults defaults;
  defaults.temperature = number(root, "temperature", 0.0, 100.0, defaults.temperature);
  if (!root.optional_boolean("do_sample").value_or(true)) defaults.temperature = 0.0f;
  defaults.top_k = root.optional_integer("top_k", 0, INT32_MAX).value_or(defaults.top_k);
  defaults.top_p = number(root, "top_p", 0.0, 1.0, defaults.top_p);
  defaults.min_p = number(root, "min_p", 0.0, 1.0, defaults.min_p);
  defaults.repetition_penalty = number(root, "repetition_penalty", 0.01, 100.0, defaults.repetition_penalty);
  add_ids(root, "suppress_tokens", defaults.suppress_tokens);
  add_ids(root, "eos_token_id", defaults.eos_tokens);
  return defaults;
}

GenerationDefaults read_generation_defaults(const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string path = (fs::path(folder) / "generation_config.json").string();
  const std::string config_path = (fs::path(folder) / "config.json").string();

  GenerationDefaults defaults;
  std::error_code ignored;
  // A link to nothing is a broken download and an error, not an absent file.
  if (fs::symlink_status(path, ignored).type() != fs::file_type::not_found)
    defaults = parse_generation_config(read_text_file(path, kMaxBytes), path);
  const std::string config_json = read_text_file(config_path);
  const JsonDocument config(config_json, config_path);
  add_ids(config.root(), "eos_token_id", defaults.eos_tokens);
  if (defaults.eos_tokens.empty()) defaults.eos_tokens = {kEos};
  return defaults;
}

}  // namespace lapidary::decode
