// The flags that all commands with a model share, and loading it.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "link/link.hpp"

namespace lapidary::cli {

struct ModelFlags {
  std::string checkpoint;
  link::Options options;
  std::string memory;  // "512M", "8G"

  void add_to(CLI::App& command);
  link::Program load() const;
};

}  // namespace lapidary::cli
