// What limits the next token: a grammar, which waits while the model thinks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "text/grammar.hpp"

namespace lapidary::decode {

class Constraint {
 public:
  explicit Constraint(std::shared_ptr<const text::Grammar> grammar) : state_(std::move(grammar)) {}

  // With thinking on, the output may begin with a thought, between these two tokens, that the grammar does not see.
  Constraint(std::shared_ptr<const text::Grammar> grammar, std::int32_t thought_open, std::int32_t thought_close)
      : state_(std::move(grammar)), open_(thought_open), close_(thought_close), phase_(Phase::start) {}

  void fill_mask(text::TokenMask mask, std::span<const std::int32_t> stop_ids) const;
  void accept(std::int32_t token);

 private:
  enum class Phase : std::uint8_t { start, thought, grammar };

  text::GrammarState state_;
  std::int32_t open_ = -1, close_ = -1;
  Phase phase_ = Phase::grammar;
};

}  // namespace lapidary::decode
