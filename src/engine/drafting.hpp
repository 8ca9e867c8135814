// Who drafts: drafters to load with a target, sources for the rounds of a text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decode/speculation.hpp"
#include "link/drafters.hpp"
#include "link/link.hpp"

namespace lapidary::engine {

enum class DraftKind { automatic, mtp, dflash, lookup, none };

// The one place of the defaults.
struct DraftOptions {
  std::vector<std::string> drafters{};  // folders, for automatic, mtp and dflash; none = look beside the target
  DraftKind kind = DraftKind::automatic;
  std::optional<int> tokens{};  // k; none = chosen round by round

  bool wants_assistant() const { return kind == DraftKind::automatic || kind == DraftKind::mtp; }
  bool wants_dflash() const { return kind == DraftKind::automatic || kind == DraftKind::dflash; }
  bool wants_lookup() const { return kind == DraftKind::automatic || kind == DraftKind::lookup; }
  link::Drafters wanted() const { return {.assistant = wants_assistant(), .dflash = wants_dflash()}; }
  bool asks_for_drafter() const { return kind == DraftKind::mtp || kind == DraftKind::dflash || !drafters.empty(); }
};

// The graph to run a target with, and its drafters. Everything is decided from configs; a forced kind that cannot work is an error.
link::Pairing pair(const DraftOptions& options, const std::string& target_folder);

// Refuses drafters that are not of the kind that is asked for, and no drafter where a kind is.
void check_kinds(const DraftOptions& options, const link::Pairing& pairing, const std::string& target_folder);

// Bytes that the sources of drafts keep, for each text.
std::size_t source_bytes(const DraftOptions& options, std::int32_t context_tokens);
decode::Speculation make_speculation(const DraftOptions& options, const link::Program& program);
// Of that: what one conversation asks for. What the model was loaded without is refused, unless it comes by itself.
decode::DraftChoice choose_drafts(const decode::Speculation& speculation, const DraftOptions& options);

}  // namespace lapidary::engine
