#include "decode/constraint.hpp"

#include <algorithm>

namespace lapidary::decode {
namespace {

void allow_all(text::TokenMask mask) { std::ranges::fill(mask, ~0u); }
void allow_none(text::TokenMask mask) { std::ranges::fill(mask, 0u); }

void set(text::TokenMask mask, std::int32_t marker, bool allowed) {
  if (marker >= 0) text::set_bit(mask, marker, allowed);
}

}  // namespace

Constraint::Constraint(Rules rules)
    : rules_(std::make_shared<const Rules>(std::move(rules))), phase_(rules_->text_is_free() ? Phase::text : Phase::start),
      may_think_(rules_->may_think) {
  if (rules_->call_grammar) call_begin_.emplace(rules_->call_grammar);
  if (rules_->answer_grammar) state_.emplace(rules_->answer_grammar);
  else state_ = call_begin_;
  if (rules_->in_thought) begin_thought(rules_->thought_header.size());
}

void Constraint::fill_mask(text::TokenMask mask, std::span<const std::int32_t> stop_ids) const {
  const Rules& rules = *rules_;
  switch (phase_) {
    case Phase::start:
      if (rules.answer_grammar) state_->fill_mask(mask, stop_ids);
      else allow_none(mask);
      if (may_think_) set(mask, rules.thought.open, true);
      if (rules.may_call()) set(mask, rules.call.open, true);
      return;
    case Phase::answer: state_->fill_mask(mask, stop_ids); return;
    case Phase::text:
      allow_all(mask);
      if (!rules.may_call()) set(mask, rules.call.open, false);
      return;
    case Phase::thought:
      allow_all(mask);
      if (rules.text_is_free() && rules.may_call()) return;
      set(mask, rules.call.open, false);
      if (rules.text_is_free()) return;
      for (const std::int32_t id : stop_ids) text::set_bit(mask, id, false);  // something must follow the thought
      return;
    case Phase::closing:
      allow_none(mask);
      text::set_bit(mask, rules.thought_closing[closing_ids_], true);
      return;
    case Phase::call:
      if (rules.call_grammar) state_->fill_mask(mask, {&rules.call.close, 1});  // stop tokens are special: never part of a call
      else allow_all(mask);
      return;
    case Phase::after_call:
      allow_none(mask);
      set(mask, rules.call.open, true);
      for (const std::int32_t id : stop_ids) text::set_bit(mask, id, true);
      return;
    case Phase::end: allow_all(mask); return;  // what is chosen here is nobody's
  }
}

bool Constraint::accept(std::int32_t token) {
  const Rules& rules = *rules_;
  switch (phase_) {
    case Phase::start:
      if (token == rules.call.open) return begin_call();
      if (may_think_ && token == rules.thought.open) {
        begin_thought(0);
        return true;
      }
      if (!rules.answer_grammar || !state_->accept(token)) return false;
      phase_ = Phase::answer;
      return true;
    case Phase::answer: return state_->accept(token);
    case Phase::text:
      if (token == rules.call.open) return begin_call();
      if (token == rules.thought.open) begin_thought(0);
      return true;
    case Phase::thought:
      if (token == rules.call.open) return rules.text_is_free() && begin_call();
      if (token == rules.thought.close) end_thought();
      else count_in_thought(token);
      return true;
    case Phase::closing:
      if (token != rules.thought_closing[closing_ids_]) return false;
      if (++closing_ids_ == rules.thought_closing.size()) end_thought();
      return true;
    case Phase::call:
      if (token != rules.call.close) return !rules.call_grammar || state_->accept(token);
      if (rules.call_grammar && !state_->complete()) return false;
      end_call();
      return true;
    case Phase::after_call: return token == rules.call.open && begin_call();
    case Phase::end: return false;
  }
  return false;
}

bool Constraint::complete() const {
  switch (phase_) {
    case Phase::answer: return state_->complete();
    case Phase::thought:
    case Phase::closing: return rules_->text_is_free();
    case Phase::text:
    case Phase::after_call:
    case Phase::end: return true;
    case Phase::start:
    case Phase::call: return false;
  }
  return false;
}

void Constraint::begin_thought(std::size_t header_ids) {
  phase_ = Phase::thought;
  header_ids_ = header_ids;
  if (!rules_->thought_ids) return;
  ids_left_ = *rules_->thought_ids;
  closing_ids_ = 0;
  if (header_ids_ == rules_->thought_header.size() && ids_left_ == 0) phase_ = Phase::closing;
}

void Constraint::count_in_thought(std::int32_t token) {
  if (!rules_->thought_ids) return;
  const std::vector<std::int32_t>& header = rules_->thought_header;
  if (header_ids_ < header.size() && token == header[header_ids_]) {
    ++header_ids_;
  } else {
    header_ids_ = header.size();  // a thought need not have one
    --ids_left_;
  }
  if (header_ids_ == header.size() && ids_left_ <= 0) phase_ = Phase::closing;
}

void Constraint::end_thought() {
  phase_ = rules_->text_is_free() ? Phase::text : Phase::start;
  may_think_ = false;
}

bool Constraint::begin_call() {
  if (!rules_->may_call()) return false;
  phase_ = Phase::call;
  state_ = call_begin_;
  return true;
}

void Constraint::end_call() {
  phase_ = rules_->single_call ? Phase::end : rules_->text_is_free() ? Phase::text : Phase::after_call;
}

}  // namespace lapidary::decode
