// Drafts of a text that is known beforehand, right as often as asked for: to measure and to test what becomes of them.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "decode/draft.hpp"
#include "link/forwarding_executor.hpp"

namespace lapidary::decode {

// Whether the draft of a position is right depends on the seed alone, so all ways to decode the text get the same drafts.
class ScriptedDrafts : public DraftSource {
 public:
  // text: what plain decoding generates after a prompt of `prompt_tokens`; acceptance: of a draft, 0 to 1
  ScriptedDrafts(std::span<const std::int32_t> text, std::size_t prompt_tokens, std::int32_t vocab, double acceptance,
                 std::uint64_t seed)
      : prompt_tokens_(prompt_tokens), drafts_(text.begin(), text.end()) {
    std::mt19937_64 random(seed);
    for (std::int32_t& token : drafts_) {
      const bool right = static_cast<double>(random() >> 11) * 0x1p-53 < acceptance;
      const auto away = static_cast<std::int32_t>(1 + random() % static_cast<std::uint64_t>(vocab - 1));
      if (!right) token = (token + away) % vocab;
    }
  }

  std::string_view name() const override { return "scripted"; }

  Drafts propose(std::span<const std::int32_t> history, int most) override {
    const auto drafts = after(history.size());
    return {static_cast<int>(std::min(static_cast<std::size_t>(most), drafts.size())), drafts.data()};
  }

  // All that follow the first `tokens` of prompt and text.
  std::span<const std::int32_t> after(std::size_t tokens) const {
    return std::span(drafts_).subspan(std::min(tokens - prompt_tokens_, drafts_.size()));
  }

 private:
  std::size_t prompt_tokens_;
  std::vector<std::int32_t> drafts_;  // by position in the text
};

// A backend whose drafters work as ever, and then find scripted drafts in the place of theirs.
class ScriptedExecutor final : public link::ForwardingExecutor {
 public:
  ScriptedExecutor(link::Executor& inner, const ScriptedDrafts& script) : ForwardingExecutor(inner), script_(script) {}

  link::RunId submit(link::Play play, std::span<const link::Seat> seats, const link::Watch& watch) override {
    assert(seats.size() == 1);
    if (play != link::Play::round || seats[0].drafts == 0) return ForwardingExecutor::submit(play, seats, watch);
    if (ForwardingExecutor::submit(link::Play::draft, seats, watch) == link::kNoRun) return link::kNoRun;
    graph::RoundState& state = this->state(seats[0].slot);
    const auto drafts = script_.after(static_cast<std::size_t>(state.length) + 1);
    std::copy_n(drafts.begin(), std::min(static_cast<std::size_t>(state.drafted), drafts.size()), state.drafts.begin());
    link::Seat seat = seats[0];
    seat.drafts = 0;
    seat.block = false;
    if (ForwardingExecutor::submit(link::Play::verify, {&seat, 1}, watch) == link::kNoRun) return link::kNoRun;
    return ForwardingExecutor::submit(link::Play::select, {&seat, 1}, watch);
  }

 private:
  const ScriptedDrafts& script_;
};

}  // namespace lapidary::decode
