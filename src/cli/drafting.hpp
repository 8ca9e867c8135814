// The flags that say who drafts, and what came of it for people.
#pragma once

#include <CLI/CLI.hpp>

#include "engine/drafting.hpp"
#include "engine/model.hpp"

namespace lapidary::cli {

struct DraftFlags {
  engine::DraftOptions options;

  // `more_names`: of --draft-model, ",--name"
  void add_to(CLI::App& command, const char* more_names = "");
  void add_drafters_to(CLI::App& command, const char* more_names = "");  // without --draft-tokens
  void check() const;  // that the flags go together
};

// What the rounds of a text came to, to stderr.
void print_draft_stats(const decode::Speculation& speculation, const decode::SpeculationStats& stats);
// Which drafters it has, for reports, to stderr; nothing without one.
void print_drafters(const engine::Model& model);

}  // namespace lapidary::cli
