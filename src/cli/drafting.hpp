// The flags that say who drafts, and what came of it for people.
#pragma once

#include <CLI/App.hpp>

#include "engine/drafting.hpp"
#include "engine/model.hpp"

namespace lapidary::cli {

struct DraftFlags {
  engine::DraftOptions options;

  void add_to(CLI::App& command);
  void check() const;  // that the flags go together
};

// What the rounds of a text came to, to stderr.
void print_draft_stats(const decode::Speculation& speculation, const decode::SpeculationStats& stats);
// Which assistant it was, for reports, to stderr; nothing without one.
void print_assistant(const engine::Model& model);

}  // namespace lapidary::cli
