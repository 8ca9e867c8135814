// The flags that say how tokens are chosen.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine/sampling.hpp"

namespace lapidary::cli {

struct SamplingFlags {
  engine::SamplingOptions given;
  std::vector<std::string> bias;  // "ID=VALUE"

  void add_to(CLI::App& command);
  engine::SamplingOptions options() const;
};

}  // namespace lapidary::cli
