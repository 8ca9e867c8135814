#include "cli/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/environment.hpp"
#include "engine/parts.hpp"
#include "text/value.hpp"

namespace lapidary::cli {
namespace {

namespace fs = std::filesystem;
using text::Value;

constexpr const char* kSettings[] = {"model", "context", "threads", "backend", "numeric", "kv", "memory", "draft-model", "draft-kind",
                                     "temperature", "top-k", "top-p", "min-p", "max-tokens"};

// Empty where there is none.
std::string find_file() {
  if (const std::string given = variable("LAPIDARY_CONFIG"); !given.empty()) return given;
  const fs::path folder = user_folder("XDG_CONFIG_HOME", ".config"), path = folder / "lapidary" / "config.json";
  std::error_code error;
  return !folder.empty() && fs::exists(path, error) ? path.string() : "";
}

// A variable that is set already stays as it is.
void read_file(const std::string& path) {
  const Value all = text::parse_json(read_text_file(path), path);
  if (!all.object()) fail(ErrorKind::wrong_type, path, "expected an object of settings");
  for (const auto& [name, value] : *all.object()) {
    if (std::ranges::find(kSettings, name, [](const char* known) { return std::string_view(known); }) == std::end(kSettings)) {
      std::string known;
      for (const char* setting : kSettings) known += std::string(known.empty() ? "" : ", ") + setting;
      fail(ErrorKind::unsupported, path, "settings, expected among " + known + ", got " + name);
    }
    if (value.object() || value.array()) fail(ErrorKind::wrong_type, path, name + ", expected a text or a number");
    setenv(variable_of(name).c_str(), (value.string() ? *value.string() : text::to_json(value)).c_str(), 0);
  }
}

}  // namespace

std::span<const char* const> settings() { return kSettings; }

std::string variable_of(const std::string& setting) {
  std::string name = "LAPIDARY_" + setting;
  std::ranges::transform(name, name.begin(), [](char c) { return c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name;
}

void apply_settings(CLI::App& app) {
  if (const std::string path = find_file(); !path.empty()) read_file(path);
  const link::Manifest* gem = engine::gem();
  if (gem)
    for (const link::CutDefault& given : gem->defaults) setenv(variable_of(std::string(given.flag)).c_str(), std::string(given.value).c_str(), 0);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    for (const char* setting : kSettings)
      // A cut program is its own model, whatever the user's others are.
      if (const std::string_view name = setting; gem && (name == "model" || name == "draft-model")) continue;
      else if (CLI::Option* option = command->get_option_no_throw(std::string("--") + setting)) {
        // LAPIDARY_CHAT_CONTEXT before LAPIDARY_CONTEXT.
        const std::string own = variable_of(command->get_name() + "-" + setting);
        option->envname(variable(own.c_str()).empty() ? variable_of(setting) : own);
      }
}

bool is_on_line(const CLI::Option& option) {
  const std::string set = option.get_envname().empty() ? "" : variable(option.get_envname().c_str());
  return option.count() > 0 && (set.empty() || option.results() != std::vector<std::string>{set});
}

}  // namespace lapidary::cli
