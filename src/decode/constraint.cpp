#include "decode/constraint.hpp"

#include <algorithm>

namespace lapidary::decode {
namespace {

void set_bit(text::TokenMask mask, std::int32_t id, bool allowed) {
  const std::uint32_t bit = 1u << (id % 32);
  std::uint32_t& word = mask[static_cast<std::size_t>(id / 32)];
  word = allowed ? word | bit : word & ~bit;
}

}  // namespace

void Constraint::fill_mask(text::TokenMask mask, std::span<const std::int32_t> stop_ids) const {
  if (phase_ == Phase::thought) {
    std::ranges::fill(mask, ~0u);
    for (const std::int32_t id : stop_ids) set_bit(mask, id, false);  // an answer must follow the thought
    return;
  }
  state_.fill_mask(mask, stop_ids);
  if (phase_ == Phase::start) set_bit(mask, open_, true);
}

void Constraint::accept(std::int32_t token) {
  switch (phase_) {
    case Phase::start:
      phase_ = token == open_ ? Phase::thought : Phase::grammar;
      if (phase_ == Phase::grammar) state_.accept(token);
      return;
    case Phase::thought:
      if (token == close_) phase_ = Phase::grammar;
      return;
    case Phase::grammar: state_.accept(token); return;
  }
}

}  // namespace lapidary::decode
