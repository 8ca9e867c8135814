// What limits the next token: a grammar for the whole answer, which waits while the model thinks, or one for each tool call.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "text/grammar.hpp"

namespace lapidary::decode {

// The tokens around a part of the output.
struct Markers {
  std::int32_t open = -1, close = -1;
};

class Constraint {
 public:
  static Constraint answer(std::shared_ptr<const text::Grammar> grammar) { return {std::move(grammar), {}, Phase::answer}; }
  // With thinking on, the output may begin with a thought that the grammar does not see.
  static Constraint answer(std::shared_ptr<const text::Grammar> grammar, Markers thought) {
    return {std::move(grammar), thought, Phase::start};
  }
  // Free text; but once a call is opened it must fit the grammar, and only then can it be closed.
  static Constraint calls(std::shared_ptr<const text::Grammar> grammar, Markers call) {
    return {std::move(grammar), call, Phase::text};
  }

  void fill_mask(text::TokenMask mask, std::span<const std::int32_t> stop_ids) const;
  // Takes a token; false and no change where it is not allowed.
  bool accept(std::int32_t token);
  // May the output end here?
  bool complete() const { return phase_ == Phase::text || (phase_ == Phase::answer && state_.complete()); }

 private:
  enum class Phase : std::uint8_t { start, thought, answer, text, call };

  Constraint(std::shared_ptr<const text::Grammar> grammar, Markers markers, Phase phase)
      : begin_(std::move(grammar)), state_(begin_), markers_(markers), phase_(phase) {}

  text::GrammarState begin_;  // every call starts from it
  text::GrammarState state_;
  Markers markers_;
  Phase phase_;
};

}  // namespace lapidary::decode
