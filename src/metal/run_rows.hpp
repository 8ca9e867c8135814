// Which rows of a run are whose, and which segments it has: of prompts, rounds and the DFlash drafter's blocks.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "link/link.hpp"
#include "link/play.hpp"
#include "link/slots.hpp"
#include "metal/replay.hpp"

namespace lapidary::metal {

inline bool has_block(const link::Seat& seat) { return seat.block && seat.drafts > 0; }

// Rows of a prompt are those of its chunk, of a round the bonus token and the drafts that are there or are to be made.
// known_state(slot): what a round begins with, as far as the host can know
layout::Run run_of(link::Play play, std::span<const link::Seat> seats, const link::Program& program, link::Slots& slots,
                   const std::function<graph::RoundState(int slot)>& known_state);

// A segment of the run, and how many rows it has.
struct PlannedLeg {
  graph::SegmentId segment{};
  std::size_t seat = 0;  // whose it is, where it is of one
  RowCounts rows{};
};

// Those that have rows.
std::vector<PlannedLeg> plan_legs(const link::Legs& legs, const layout::Run& run);

// How much of a leg's time is a session's: drafts are its own, blocks are shared, all else counts for each.
double part_of(const PlannedLeg& leg, std::span<const link::Seat> seats, std::size_t seat);

}  // namespace lapidary::metal
