// What the session slots of a backend hold: how far each has been written, and the copy of one to another.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/error.hpp"
#include "link/link.hpp"

namespace lapidary::link {

// Calls visit(layer, offset, position_bytes) for the K and the V of each head that a session's block holds. A tile of positions is one
// run of bytes in every format.
template <class Visit>
void for_each_head(const MemoryPlan& plan, const graph::Shape& shape, Visit&& visit) {
  for (std::size_t l = 0; l < plan.kv.size(); ++l) {
    const KvPlacement& layer = plan.kv[l];
    if (!layer.capacity) continue;
    const auto heads = static_cast<std::size_t>(shape.layers[l].kv_heads), positions = static_cast<std::size_t>(layer.capacity);
    for (const auto& [first, position_bytes] : {std::pair{layer.k_offset_bytes, layer.stores.key_bytes()},
                                                {layer.v_offset_bytes, layer.stores.value_bytes()}})
      for (std::size_t head = 0; head < heads; ++head) visit(layer, first + head * positions * position_bytes, position_bytes);
  }
}

// Calls visit(offset, bytes) for each run of bytes in a session's block that belongs to its first `length` positions: K/V, then the
// carried hidden row.
template <class Visit>
void for_each_run(const MemoryPlan& plan, const graph::Shape& shape, std::int32_t length, Visit&& visit) {
  for_each_head(plan, shape, [&](const KvPlacement& layer, std::size_t offset, std::size_t position_bytes) {
    const std::int32_t tiles = std::min(length + graph::kTile - 1, layer.capacity) / graph::kTile;
    visit(offset, position_bytes * static_cast<std::size_t>(tiles * graph::kTile));
  });
  visit(plan.carry_offset_bytes, plan.session_bytes - plan.carry_offset_bytes);
}

// Whether rings that have been written up to `written` still hold all that the position `length` sees.
inline bool keeps(const MemoryPlan& plan, const graph::Shape& shape, std::int32_t written, std::int32_t length) {
  if (length == 0) return true;
  const std::int32_t oldest_visible = std::max(0, length - shape.window + 1);
  return length <= written &&
         std::ranges::all_of(plan.kv, [&](const KvPlacement& kv) { return !kv.capacity || oldest_visible + kv.capacity >= written; });
}

class Slots {
 public:
  explicit Slots(const Program& program)
      : plan_(program.plan), shape_(program.graph->shape), written_(static_cast<std::size_t>(program.plan.sessions)) {}

  // Positions begin..end are about to be computed. A text that begins anew has the slot to itself.
  void write(int slot, std::int32_t begin, std::int32_t end) {
    written_[slot] = begin == 0 ? end : std::max(written_[slot], end);
  }

  // As Executor::keeps.
  bool keeps(int slot, std::int32_t length) const { return link::keeps(plan_, shape_, written_[slot], length); }

  std::int32_t& written(int slot) { return written_[slot]; }

  // K/V of the first `length` positions and the carried hidden row; kv: the block of session slot 0.
  void copy(std::byte* kv, int from, int to, std::int32_t length) {
    if (from == to) return;
    if (!keeps(from, length))
      fail(ErrorKind::usage, "session", "expected " + std::to_string(length) + " positions to copy, got some of them overwritten");
    const std::byte* source = kv + plan_.session_bytes * static_cast<std::size_t>(from);
    std::byte* target = kv + plan_.session_bytes * static_cast<std::size_t>(to);
    for_each_run(plan_, shape_, length,
                 [&](std::size_t offset, std::size_t bytes) { std::memcpy(target + offset, source + offset, bytes); });
    written_[to] = written_[from];
  }

 private:
  const MemoryPlan& plan_;
  const graph::Shape& shape_;
  std::vector<std::int32_t> written_;  // by slot: the furthest position that may ever have been written is before this
};

}  // namespace lapidary::link
