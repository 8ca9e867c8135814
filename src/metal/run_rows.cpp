#include "metal/run_rows.hpp"

#include <algorithm>

namespace lapidary::metal {
namespace {

using graph::SegmentId;
using link::Play;
using link::Seat;

// What the DFlash drafter gets the context of, before anything is computed from `length` on.
void catch_up(layout::RunSeat& seat, std::int32_t length, link::Slots& slots) {
  const link::Slots::Positions pending = slots.catch_up(seat.slot, length);
  seat.block.context_begin = slots.marks(seat.slot).context_begin;
  seat.block.pending_begin = pending.begin;
  seat.block.pending_end = pending.end;
}

}  // namespace

layout::Run run_of(Play play, std::span<const Seat> seats, const link::Program& program, link::Slots& slots,
                   const std::function<graph::RoundState(int slot)>& known_state) {
  layout::Run run{};
  run.slot = seats[0].slot;
  run.seat_count = static_cast<int>(seats.size());
  if (is_prompt(play)) {
    const graph::Chunk& chunk = seats[0].chunk;
    run.row_count = run.host_rows = static_cast<int>(chunk.rows.size());
    run.first_output = chunk.output_begin;
    run.output_count = chunk.output_count;
    run.seats[0] = {.slot = seats[0].slot, .first = 0, .count = chunk.output_count, .drafts = 0, .samples = 0, .sampling = {}, .block = {}};
    if (play == Play::head || play == Play::head_select) return run;
    if (program.dflash) catch_up(run.seats[0], chunk.rows.front().position, slots);
    slots.write_prompt(seats[0].slot, chunk.rows.front().position, chunk.rows.back().position + 1);
    return run;
  }
  for (std::size_t s = 0; s < seats.size(); ++s) {
    const graph::RoundState begins = known_state(seats[s].slot);
    const int drafts = begins.drafted + seats[s].drafts, rows = play == Play::catch_up ? 0 : drafts + 1;
    layout::RunSeat& seat = run.seats[s];
    seat = {.slot = seats[s].slot, .first = run.row_count, .count = rows, .drafts = drafts, .samples = 0, .sampling = {}, .block = {}};
    run.row_count += rows;
    if (program.dflash && (has_block(seats[s]) || play == Play::catch_up)) catch_up(seat, begins.length, slots);
    if (has_block(seats[s])) {
      seat.block.first = run.block_rows;
      seat.block.count = seats[s].drafts + 1;
      run.block_rows += seat.block.count;
    }
    if (play == Play::round || play == Play::verify) slots.write_round(seat.slot, begins.length, begins.length + rows);
  }
  run.output_count = run.row_count;
  return run;
}

std::vector<PlannedLeg> plan_legs(const link::Legs& legs, const layout::Run& run) {
  std::vector<PlannedLeg> planned;
  for (const link::Leg& leg : legs) {
    const layout::RunBlock& block = run.seats[leg.seat].block;
    const RowCounts rows{run.row_count, run.output_count, run.block_rows, block.pending_end - block.pending_begin};
    if (leg.segment != SegmentId::catch_up || rows.pending > 0) planned.push_back({leg.segment, static_cast<std::size_t>(leg.seat), rows});
  }
  return planned;
}

double part_of(const PlannedLeg& leg, std::span<const Seat> seats, std::size_t seat) {
  if (leg.segment == SegmentId::draft || leg.segment == SegmentId::catch_up) return leg.seat == seat;
  if (leg.segment != SegmentId::block) return 1;
  return has_block(seats[seat]) / static_cast<double>(std::ranges::count_if(seats, has_block));
}

}  // namespace lapidary::metal
