// What the session slots of a backend hold: how far each has been written, and the copy of one to another.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/error.hpp"
#include "link/executor.hpp"
#include "link/link.hpp"

namespace lapidary::link {

// Calls visit(layer, offset, position_bytes) for the K and the V of each head that a session's block holds for these layers. A tile of
// positions is one run of bytes in every format.
template <class Visit>
void for_each_head(std::span<const KvPlacement> layers, Visit&& visit) {
  for (const KvPlacement& layer : layers) {
    if (!layer.capacity) continue;
    const auto heads = static_cast<std::size_t>(layer.kv_heads), positions = static_cast<std::size_t>(layer.capacity);
    for (const auto& [first, position_bytes] : {std::pair{layer.k_offset_bytes, layer.stores.key_bytes()},
                                                {layer.v_offset_bytes, layer.stores.value_bytes()}})
      for (std::size_t head = 0; head < heads; ++head) visit(layer, first + head * positions * position_bytes, position_bytes);
  }
}

// Calls visit(offset, bytes) for each run of bytes in a session's block that belongs to the first `length` positions of these layers.
template <class Visit>
void for_each_tile_run(std::span<const KvPlacement> layers, std::int32_t length, Visit&& visit) {
  for_each_head(layers, [&](const KvPlacement& layer, std::size_t offset, std::size_t position_bytes) {
    const std::int32_t tiles = std::min(length + graph::kTile - 1, layer.capacity) / graph::kTile;
    visit(offset, position_bytes * static_cast<std::size_t>(tiles * graph::kTile));
  });
}

// The same for all that tokens of the target depend on: its K/V, then the carried hidden row.
template <class Visit>
void for_each_run(const MemoryPlan& plan, std::int32_t length, Visit&& visit) {
  for_each_tile_run(plan.target_kv(), length, visit);
  visit(plan.carry_offset_bytes, plan.dflash_offset_bytes - plan.carry_offset_bytes);
}

// And for what the DFlash drafter has beside it.
template <class Visit>
void for_each_dflash_run(const MemoryPlan& plan, std::int32_t length, Visit&& visit) {
  for_each_tile_run(plan.dflash_kv(), length, visit);
  if (!plan.dflash_kv().empty()) visit(plan.pending_offset_bytes, plan.session_bytes - plan.pending_offset_bytes);
}

// Whether rings that have been written up to `written` still hold all that the position `length` sees.
inline bool keeps(const MemoryPlan& plan, const graph::Shape& shape, std::int32_t written, std::int32_t length) {
  if (length == 0) return true;
  const std::int32_t oldest_visible = std::max(0, length - shape.window + 1);
  return length <= written &&
         std::ranges::all_of(plan.target_kv(), [&](const KvPlacement& kv) { return !kv.capacity || oldest_visible + kv.capacity >= written; });
}

class Slots {
 public:
  explicit Slots(const Program& program)
      : plan_(program.plan), shape_(program.graph->shape), marks_(static_cast<std::size_t>(program.plan.sessions)) {}

  // Positions begin..end are about to be computed. A text that begins anew has the slot to itself. Of a prompt the DFlash drafter gets
  // its context at once; of a round the features of accepted rows are kept, as many as there is room for.
  void write_prompt(int slot, std::int32_t begin, std::int32_t end) {
    SlotMarks& marks = write(slot, begin, end);
    marks.context_end = marks.kept_begin = marks.kept_end = end;
  }
  void write_round(int slot, std::int32_t begin, std::int32_t end) {
    SlotMarks& marks = write(slot, begin, end);
    if (begin < marks.kept_begin || begin > marks.kept_end) marks.kept_begin = begin;
    marks.kept_begin = std::max(marks.kept_begin, end - graph::kPendingRows);
    marks.kept_end = end;
  }

  // The positions before `length` that the DFlash drafter gets its context of now. Where some before them are lost, it begins with these.
  struct Positions {
    std::int32_t begin = 0, end = 0;
  };
  Positions catch_up(int slot, std::int32_t length) {
    SlotMarks& marks = marks_[slot];
    const std::int32_t known = std::min(marks.context_end, length);
    const std::int32_t from = length <= marks.kept_end ? std::min(length, std::max(known, marks.kept_begin)) : length;
    if (from > known) marks.context_begin = from;
    marks.context_begin = std::min(marks.context_begin, from);
    marks.context_end = length;
    return {from, length};
  }

  // As Executor::keeps.
  bool keeps(int slot, std::int32_t length) const { return link::keeps(plan_, shape_, marks_[slot].written, length); }

  SlotMarks& marks(int slot) { return marks_[slot]; }

  // K/V of the first `length` positions and what goes with them; kv: the block of session slot 0.
  void copy(std::byte* kv, int from, int to, std::int32_t length) {
    if (from == to) return;
    if (!keeps(from, length))
      fail(ErrorKind::usage, "session", "expected " + std::to_string(length) + " positions to copy, got some of them overwritten");
    const std::byte* source = kv + plan_.session_bytes * static_cast<std::size_t>(from);
    std::byte* target = kv + plan_.session_bytes * static_cast<std::size_t>(to);
    const auto copy = [&](std::size_t offset, std::size_t bytes) { std::memcpy(target + offset, source + offset, bytes); };
    for_each_run(plan_, length, copy);
    for_each_dflash_run(plan_, length, copy);
    marks_[to] = marks_[from];
  }

 private:
  // What was there from `begin` on is not any more.
  SlotMarks& write(int slot, std::int32_t begin, std::int32_t end) {
    SlotMarks& marks = marks_[slot];
    marks.written = begin == 0 ? end : std::max(marks.written, end);
    marks.context_end = std::min(marks.context_end, begin);
    marks.context_begin = std::min(marks.context_begin, marks.context_end);
    return marks;
  }

  const MemoryPlan& plan_;
  const graph::Shape& shape_;
  std::vector<SlotMarks> marks_;
};

}  // namespace lapidary::link
