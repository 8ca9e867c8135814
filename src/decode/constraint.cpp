#include "decode/constraint.hpp"

#include <algorithm>

namespace lapidary::decode {

void Constraint::fill_mask(text::TokenMask mask, std::span<const std::int32_t> stop_ids) const {
  switch (phase_) {
    case Phase::start:
      state_.fill_mask(mask, stop_ids);
      text::set_bit(mask, markers_.open, true);
      return;
    case Phase::thought:
      std::ranges::fill(mask, ~0u);
      for (const std::int32_t id : stop_ids) text::set_bit(mask, id, false);  // an answer must follow the thought
      return;
    case Phase::answer: state_.fill_mask(mask, stop_ids); return;
    case Phase::text: std::ranges::fill(mask, ~0u); return;
    case Phase::call: state_.fill_mask(mask, {&markers_.close, 1}); return;  // stop tokens are special: never part of a call
  }
}

bool Constraint::accept(std::int32_t token) {
  switch (phase_) {
    case Phase::start:
      if (token != markers_.open && !state_.accept(token)) return false;
      phase_ = token == markers_.open ? Phase::thought : Phase::answer;
      return true;
    case Phase::thought:
      if (token == markers_.close) phase_ = Phase::answer;
      return true;
    case Phase::answer: return state_.accept(token);
    case Phase::text:
      if (token != markers_.open) return true;
      phase_ = Phase::call;
      state_ = begin_;
      return true;
    case Phase::call:
      if (token != markers_.close) return state_.accept(token);
      if (!state_.complete()) return false;
      phase_ = Phase::text;
      return true;
  }
  return false;
}

}  // namespace lapidary::decode
