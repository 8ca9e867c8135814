// The flags that all commands with a model share, and loading it.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/backend.hpp"
#include "cli/drafting.hpp"
#include "engine/model.hpp"
#include "engine/places.hpp"
#include "link/link.hpp"

namespace lapidary::cli {

struct ModelFlags {
  std::string checkpoint;
  link::Options options{.backend = link::backends().front()};
  std::optional<link::Numeric> numeric;  // the model's usual one when not given
  std::int32_t image_tokens = 0;         // the most of a picture; 0 = the checkpoint's own
  BackendFlags backend_flags;

  void add_to(CLI::App& command);         // the checkpoint as an argument
  void add_option_to(CLI::App& command);  // the checkpoint as --model, pebble when not given
  engine::ModelOptions options_with(const DraftFlags& draft) const;
  link::Program load() const;  // without an assistant
  link::Program load(const DraftFlags& draft) const { return engine::open_program(options_with(draft)); }

 private:
  void add_limits_to(CLI::App& command);
};

inline constexpr const char* kModelHelp =
    "folder with config.json and model.safetensors, a name in a folder of LAPIDARY_MODELS, or a repo in the hub's cache";

// Where a model lies that was named, pebble when none was; empty in a program that was cut for one, which takes no other.
std::string folder_of(const std::string& model);

// pebble, the model that comes with lapidary: installed beside it or in its source tree.
std::optional<std::string> find_pebble();
std::string default_model();  // the same; fails where it is not there

}  // namespace lapidary::cli
