// How a run is put together from segments, the same for every backend.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <string>

#include "checkpoint/error.hpp"
#include "link/executor.hpp"
#include "link/plan.hpp"

namespace lapidary::link {

// A segment of a run. What comes after the drafts has the rows of all sessions, a block those of all that have one made.
struct Leg {
  graph::SegmentId segment{};
  int draft = 0;  // its number among those of its session
  int seat = 0;   // whose it is: of catch_up, and where sessions draft in turn
};

// Who makes a draft at a time: one session after the other, or all that have still one to make, with a row each.
enum class DraftOrder : std::uint8_t { in_turn, together };

// In their order.
class Legs {
 public:
  Legs(Play play, std::span<const Seat> seats, DraftOrder order, Drafters drafters) {
    using graph::SegmentId;
    if (play == Play::round || play == Play::draft) {
      add_drafts(seats, order);
      add_block(seats);
    }
    const bool reads = play == Play::prompt || play == Play::prompt_end || play == Play::prompt_all;
    if (drafters.dflash && (reads || play == Play::catch_up))
      for (std::size_t s = 0; s < seats.size(); ++s) add(SegmentId::catch_up, 0, static_cast<int>(s));
    if (reads) add(play == Play::prompt_all ? SegmentId::prefill_all : SegmentId::prefill);
    if (reads && drafters.dflash) add(SegmentId::extend);
    if (play == Play::round || play == Play::verify) add(SegmentId::forward);
    if (has_logits(play) && play != Play::select) add(SegmentId::head);
    if (chooses(play)) add(SegmentId::select);
  }

  // Whether it leaves logits behind, or those of the run before it.
  static bool has_logits(Play play) {
    return play != Play::prompt && play != Play::prompt_all && play != Play::draft && play != Play::catch_up;
  }
  static bool chooses(Play play) { return has_logits(play) && play != Play::head && play != Play::verify; }

  const Leg* begin() const { return legs_.data(); }
  const Leg* end() const { return legs_.data() + count_; }
  std::size_t size() const { return count_; }
  const Leg& operator[](std::size_t i) const { return legs_[i]; }

 private:
  void add_drafts(std::span<const Seat> seats, DraftOrder order) {
    const auto steps = [](const Seat& seat) { return seat.block ? 0 : seat.drafts; };
    if (order == DraftOrder::together)
      for (int i = 0; i < steps(std::ranges::max(seats, {}, steps)); ++i) add(graph::SegmentId::draft, i);
    else
      for (std::size_t s = 0; s < seats.size(); ++s)
        for (int i = 0; i < steps(seats[s]); ++i) add(graph::SegmentId::draft, i, static_cast<int>(s));
  }

  void add_block(std::span<const Seat> seats) {
    const auto has_block = [](const Seat& seat) { return seat.block && seat.drafts > 0; };
    for (std::size_t s = 0; s < seats.size(); ++s)
      if (has_block(seats[s])) add(graph::SegmentId::catch_up, 0, static_cast<int>(s));
    if (std::ranges::any_of(seats, has_block)) add(graph::SegmentId::block);
  }

  void add(graph::SegmentId segment, int draft = 0, int seat = 0) {
    assert(count_ < legs_.size());
    legs_[count_++] = {segment, draft, seat};
  }

  std::array<Leg, graph::kMaxVerifyRows + 4> legs_{};  // a draft or the context of one that drafts is a leg for a row of the round
  std::size_t count_ = 0;
};

// Some runs go on with what another one left in the arena: no third may come between them.
class PlayOrder {
 public:
  void follow(Play play, std::span<const Seat> seats) {
    const bool after_verify = play == Play::select, after_prompt = play == Play::head || play == Play::head_select;
    const bool in_order = after_verify   ? last_ == Play::verify
                          : after_prompt ? last_ == Play::prompt_all || last_ == Play::head
                                         : true;
    const bool same_seats = std::ranges::equal(seats, std::span(slots_).first(count_), {}, &Seat::slot);
    if (!in_order || ((after_verify || after_prompt) && !same_seats))
      fail(ErrorKind::usage, "run", "expected it right behind the one that it goes on with, got another one between them");
    last_ = play;
    count_ = seats.size();
    std::ranges::transform(seats, slots_.begin(), &Seat::slot);
  }

 private:
  Play last_ = Play::prompt;
  std::array<std::int32_t, graph::kMaxVerifyRows> slots_{};
  std::size_t count_ = 0;
};

}  // namespace lapidary::link
