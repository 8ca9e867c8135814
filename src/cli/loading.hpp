// Which model talks and who drafts for it: the flags for that, loading it, and saying what was chosen.
#pragma once

#include <memory>

#include "cli/model.hpp"
#include "engine/model.hpp"

namespace lapidary::cli {

struct EngineFlags {
  ModelFlags model;
  DraftFlags draft;
  bool quiet = false, verbose = false;

  void add_to(CLI::App& command);
  // A terminal shows what is being done meanwhile; with --verbose standard error gets what was chosen and why.
  std::unique_ptr<engine::Model> load() const;
};

}  // namespace lapidary::cli
