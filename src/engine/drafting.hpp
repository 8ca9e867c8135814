// Who drafts: an assistant to load with a target, sources for the rounds of a text.
#pragma once

#include <optional>
#include <string>

#include "decode/speculation.hpp"
#include "link/link.hpp"

namespace lapidary::engine {

enum class DraftKind { automatic, mtp, lookup, none };

// The one place of the defaults.
struct DraftOptions {
  std::string assistant;  // folder, for automatic and mtp; empty = look beside the target
  DraftKind kind = DraftKind::automatic;
  std::optional<int> tokens;  // k; none = chosen round by round

  bool wants_assistant() const { return kind == DraftKind::automatic || kind == DraftKind::mtp; }
  bool wants_lookup() const { return kind == DraftKind::automatic || kind == DraftKind::lookup; }
  bool asks_for_assistant() const { return kind == DraftKind::mtp || !assistant.empty(); }
};

// The graph to run a target with, and its assistant.
struct Pairing {
  const graph::Graph* graph = nullptr;
  std::optional<std::string> assistant;  // folder
};
// Everything is decided from configs; a forced kind that cannot work is an error.
Pairing pair(const DraftOptions& options, const std::string& target_folder);

// Bytes that the sources of drafts keep, for each text.
std::size_t source_bytes(const DraftOptions& options, std::int32_t context_tokens);
decode::Speculation make_speculation(const DraftOptions& options, const link::Program& program);
// Of that: what one conversation asks for. What the model was loaded without is refused, unless it comes by itself.
decode::DraftChoice choose_drafts(const decode::Speculation& speculation, const DraftOptions& options);

}  // namespace lapidary::engine
