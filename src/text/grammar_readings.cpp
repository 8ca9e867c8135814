#include "text/grammar_readings.hpp"

#include <algorithm>
#include <cassert>

namespace lapidary::text {
namespace {

constexpr std::uint32_t kNone = ~0u;
constexpr std::size_t kFew = 64;  // readings among which a search is quick

}  // namespace

Walk::Walk(const Automaton& automaton) : automaton_(automaton) {
  frames_.push_back({automaton.start, kNone, 0});
  frames_begin_ = 1;
  add(automaton.start, 0);
  settle();
}

Walk::Walk(const Automaton& automaton, const Readings& from, std::span<const Reading> tops)
    : automaton_(automaton), tops_(tops.begin(), tops.end()), frames_(from.frames), returns_(from.returns) {
  levels_.push_back({0, tops_.size(), frames_.size(), returns_.size(), from.complete});
}

bool Walk::step(std::size_t depth, std::uint8_t byte) {
  levels_.resize(depth + 1);
  const Level& from = levels_.back();
  tops_.resize(from.tops);
  frames_.resize(from.frames);
  returns_.resize(from.returns);
  tops_begin_ = from.tops;
  frames_begin_ = from.frames;
  complete_ = false;
  for (std::size_t i = from.tops_begin; i < from.tops; ++i) {
    const Reading top = tops_[i];
    const State& state = automaton_.states[top.state];
    for (std::uint32_t e = state.first; e < state.bytes_end; ++e) {
      const Edge& edge = automaton_.edges[e];
      if (byte >= edge.low && byte <= edge.high) add(edge.target, top.frame);
    }
  }
  settle();
  return complete_ || tops_.size() > tops_begin_;
}

// Only what can still reach the end is added, so that no reading ever gets stuck.
void Walk::add(StateId state, FrameId frame) {
  if (automaton_.states[state].height + frames_[frame].depth > kMaxNesting) return;
  if (is_new({state, frame})) tops_.push_back({state, frame});
}

bool Walk::is_new(const Reading& reading) {
  const std::span tops = std::span(tops_).subspan(tops_begin_);
  if (tops.size() < kFew) return std::ranges::find(tops, reading) == tops.end();
  const auto key = [](const Reading& top) { return std::uint64_t{top.state} << 32 | top.frame; };
  if (tops.size() == kFew) {
    many_.clear();
    for (const Reading& top : tops) many_.insert(key(top));
  }
  return many_.insert(key(reading)).second;
}

void Walk::call(const Edge& edge, FrameId frame) {
  const std::uint32_t depth = frames_[frame].depth;
  if (automaton_.states[edge.target].height + depth > kMaxNesting) return;  // it could not go on after the call
  std::size_t callee = frames_begin_;
  while (callee < frames_.size() && frames_[callee].rule != edge.rule) ++callee;
  if (callee == frames_.size()) {
    frames_.push_back({edge.rule, kNone, depth + edge.nesting});
    add(edge.rule, static_cast<FrameId>(callee));
  }
  assert(frame < frames_begin_ && frames_[callee].depth == depth + edge.nesting);
  returns_.push_back({{edge.target, frame}, frames_[callee].returns});
  frames_[callee].returns = static_cast<std::uint32_t>(returns_.size() - 1);
}

void Walk::settle() {
  for (std::size_t i = tops_begin_; i < tops_.size(); ++i) {
    const Reading top = tops_[i];
    const State& state = automaton_.states[top.state];
    for (std::uint32_t e = state.bytes_end; e < state.end; ++e) {
      const Edge& edge = automaton_.edges[e];
      if (edge.kind == Edge::Kind::empty) {
        add(edge.target, top.frame);
      } else {
        call(edge, top.frame);
      }
    }
    if (!state.ends_rule) continue;
    if (top.frame == 0) complete_ = true;
    for (std::uint32_t r = frames_[top.frame].returns; r != kNone; r = returns_[r].next) {
      const Reading to = returns_[r].to;
      add(to.state, to.frame);
    }
  }
  levels_.push_back({tops_begin_, tops_.size(), frames_.size(), returns_.size(), complete_});
}

Readings Walk::readings() const {
  const Level& last = levels_.back();
  Readings result;
  result.complete = last.complete;
  std::vector<bool> used(frames_.size());
  used[0] = true;
  for (std::size_t i = last.tops_begin; i < last.tops; ++i) {
    const State& state = automaton_.states[tops_[i].state];
    if (state.first == state.bytes_end && !state.in_string) continue;
    result.tops.push_back(tops_[i]);
    used[tops_[i].frame] = true;
  }
  for (std::size_t f = frames_.size(); f-- > 1;) {
    if (!used[f]) continue;
    for (std::uint32_t r = frames_[f].returns; r != kNone; r = returns_[r].next) used[returns_[r].to.frame] = true;
  }
  std::vector<FrameId> place(frames_.size());
  for (std::size_t f = 0; f < frames_.size(); ++f) {
    if (!used[f]) continue;
    place[f] = static_cast<FrameId>(result.frames.size());
    Frame frame = frames_[f];
    frame.returns = kNone;
    for (std::uint32_t r = frames_[f].returns; r != kNone; r = returns_[r].next) {
      const Reading& to = returns_[r].to;
      result.returns.push_back({{to.state, place[to.frame]}, frame.returns});
      frame.returns = static_cast<std::uint32_t>(result.returns.size() - 1);
    }
    result.frames.push_back(frame);
  }
  for (Reading& top : result.tops) top.frame = place[top.frame];
  return result;
}

}  // namespace lapidary::text
