#include "text/grammar_readings.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace lapidary::text {
namespace {

constexpr std::uint32_t kNone = ~0u;
constexpr std::size_t kFew = 64;  // readings among which a search is quick
// Room that most grammars do with: of readings, and of a walk.
constexpr std::size_t kReadingsRoom = 256, kWalkRoom = 4096;

}  // namespace

Readings::Readings() {
  tops.reserve(kReadingsRoom);
  frames.reserve(kReadingsRoom);
  returns.reserve(kReadingsRoom);
}

Walk::Walk(const Automaton& automaton) : automaton_(automaton) {
  tops_.reserve(kWalkRoom);
  frames_.reserve(kWalkRoom);
  returns_.reserve(kWalkRoom);
  levels_.reserve(kWalkRoom);
  places_.reserve(4 * kWalkRoom);
  kept_.reserve(kWalkRoom);
  frames_.push_back({automaton.start, kNone, 0});
  frames_begin_ = 1;
  add(automaton.start, 0);
  settle();
}

void Walk::begin(const Readings& from) {
  tops_ = from.tops;
  begin_level(from);
}

bool Walk::begin(const Readings& from, bool in_string) {
  tops_.clear();
  std::ranges::copy_if(from.tops, std::back_inserter(tops_),
                       [&](const Reading& top) { return automaton_.states[top.state].in_string == in_string; });
  begin_level(from);
  return !tops_.empty();
}

void Walk::begin_level(const Readings& from) {
  frames_ = from.frames;
  returns_ = from.returns;
  levels_.clear();
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
  places_.clear();
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
  if (places_.size() < 2 * tops.size()) {
    places_.assign(std::bit_ceil(4 * tops.size()), kNone);
    for (std::size_t i = tops_begin_; i < tops_.size(); ++i) place_of(tops_[i]) = static_cast<std::uint32_t>(i);
  }
  std::uint32_t& place = place_of(reading);
  if (place != kNone) return false;
  place = static_cast<std::uint32_t>(tops_.size());  // where it goes next
  return true;
}

std::uint32_t& Walk::place_of(const Reading& reading) {
  const std::uint64_t key = std::uint64_t{reading.state} << 32 | reading.frame, mask = places_.size() - 1;
  std::uint64_t place = key * 0x9e3779b97f4a7c15u >> 32 & mask;
  while (places_[place] != kNone && tops_[places_[place]] != reading) place = (place + 1) & mask;
  return places_[place];
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

void Walk::get(Readings& readings) {
  const Level& last = levels_.back();
  readings.tops.clear();
  readings.frames.clear();
  readings.returns.clear();
  readings.complete = last.complete;
  kept_.assign(frames_.size(), kNone);
  kept_[0] = 0;
  for (std::size_t i = last.tops_begin; i < last.tops; ++i) {
    const State& state = automaton_.states[tops_[i].state];
    if (state.first == state.bytes_end && !state.in_string) continue;
    readings.tops.push_back(tops_[i]);
    kept_[tops_[i].frame] = 0;
  }
  for (std::size_t f = frames_.size(); f-- > 1;) {
    if (kept_[f] == kNone) continue;
    for (std::uint32_t r = frames_[f].returns; r != kNone; r = returns_[r].next) kept_[returns_[r].to.frame] = 0;
  }
  for (std::size_t f = 0; f < frames_.size(); ++f) {
    if (kept_[f] == kNone) continue;
    kept_[f] = static_cast<FrameId>(readings.frames.size());
    Frame frame = frames_[f];
    frame.returns = kNone;
    for (std::uint32_t r = frames_[f].returns; r != kNone; r = returns_[r].next) {
      const Reading& to = returns_[r].to;
      readings.returns.push_back({{to.state, kept_[to.frame]}, frame.returns});
      frame.returns = static_cast<std::uint32_t>(readings.returns.size() - 1);
    }
    readings.frames.push_back(frame);
  }
  for (Reading& top : readings.tops) top.frame = kept_[top.frame];
}

}  // namespace lapidary::text
