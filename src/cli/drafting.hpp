// The flags that say who drafts, and what comes of them: an assistant to load, sources for the rounds, numbers for people.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <CLI/App.hpp>

#include "decode/speculation.hpp"
#include "link/link.hpp"
#include "text/value.hpp"

namespace lapidary::cli {

enum class DraftKind { automatic, mtp, lookup, none };

// The one place of the defaults.
struct DraftFlags {
  std::string model;  // folder of the assistant; empty = look beside the target
  DraftKind kind = DraftKind::automatic;
  std::optional<int> tokens;  // k; none = chosen round by round

  bool asks_for_assistant() const { return kind == DraftKind::mtp || !model.empty(); }
  void add_to(CLI::App& command);
};

// The graph to run a target with, and its assistant.
struct Pairing {
  const graph::Graph* graph = nullptr;
  std::optional<std::string> assistant;  // folder
};
// Everything is decided from configs; a forced kind that cannot work is an error.
Pairing pair(const DraftFlags& flags, const std::string& target_folder);

decode::Speculation make_speculation(const DraftFlags& flags, const link::Program& program);

// The SHA-256 of config.json and the safetensors files of a folder, by name. Large files take a second.
using FileHashes = std::map<std::string, std::string>;
FileHashes hashes_of(const std::string& folder);

// What the rounds of a text came to. `assistant`: its folder, empty without one
text::Value draft_stats(const decode::Speculation& speculation, const decode::SpeculationStats& stats, const std::string& assistant,
                        const FileHashes& hashes);
void print_draft_stats(const decode::Speculation& speculation, const decode::SpeculationStats& stats, const std::string& assistant,
                       const FileHashes& hashes);  // to stderr

}  // namespace lapidary::cli
