// Stage 4: how long each value lives decides where it lies in the arena, and that decides which steps wait for which.
#include <algorithm>
#include <array>
#include <cassert>

#include "stages.hpp"

namespace lapidary::codegen {
namespace {

using graph::Buffer;
using graph::Step;

using graph::row_stride;

struct Life {
  int first = -1;
  int last = -1;
  bool overlaps(const Life& other) const { return first <= other.last && other.first <= last; }
};

std::vector<Life> lives_of(const Lowered& lowered) {
  std::vector<Life> lives(lowered.values.size());
  for (int step = 0; step < static_cast<int>(lowered.nodes.size()); ++step) {
    const auto touch = [&](ValueId value) {
      if (lives[value].first < 0) lives[value].first = step;
      lives[value].last = step;
    };
    for (const ValueId value : lowered.nodes[step].in) touch(value);
    for (const ValueId value : lowered.nodes[step].out) touch(value);
  }
  for (ValueId pinned = 0; pinned <= lowered.last_pinned; ++pinned)
    lives[pinned] = {0, static_cast<int>(lowered.nodes.size())};
  return lives;
}

struct Placement {
  std::vector<std::int64_t> offsets;  // by value
  std::array<std::int64_t, graph::kRegionCount> region_bytes{};
};

// The pinned values first, in order, so that they lie at the same place in every segment; then the largest first, each at
// the lowest offset that is free during its life.
Placement offsets_of(const Lowered& lowered, const std::vector<Life>& lives) {
  std::vector<ValueId> order;
  for (ValueId value = 0; value < static_cast<ValueId>(lowered.values.size()); ++value)
    if (lives[value].first >= 0) order.push_back(value);
  std::sort(order.begin() + lowered.last_pinned + 1, order.end(), [&](ValueId a, ValueId b) {
    const auto bytes_a = lowered.values[a].row_bytes, bytes_b = lowered.values[b].row_bytes;
    return bytes_a != bytes_b ? bytes_a > bytes_b : a < b;
  });

  Placement placement;
  placement.offsets.assign(lowered.values.size(), 0);
  std::vector<ValueId> done;
  for (const ValueId value : order) {
    const std::int64_t bytes = row_stride(lowered.values[value].row_bytes);
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const ValueId other : done)
      if (lowered.values[other].region == lowered.values[value].region && lives[other].overlaps(lives[value]))
        taken.emplace_back(placement.offsets[other], placement.offsets[other] + row_stride(lowered.values[other].row_bytes));
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + bytes <= begin) break;
      offset = std::max(offset, end);
    }
    placement.offsets[value] = offset;
    auto& total = placement.region_bytes[static_cast<std::size_t>(lowered.values[value].region)];
    total = std::max(total, offset + bytes);
    done.push_back(value);
  }
  return placement;
}

struct Access {
  std::vector<graph::BufferId> reads, writes;
  int kv_read = -1, kv_write = -1;
  bool makes_rows = false;  // the row table, which every other step goes by
};

Access access_of(const Step& step) {
  Access access;
  for (const auto id : step.in) if (id != graph::kNone) access.reads.push_back(id);
  for (const auto id : step.out) if (id != graph::kNone) access.writes.push_back(id);
  access.makes_rows = step.op == graph::Op::round_rows;
  if (reads_kv(step)) access.kv_read = step.dims->kv_layer;
  if (writes_kv(step)) access.kv_write = step.dims->kv_layer;
  return access;
}

// Each step waits for every earlier one whose bytes it overwrites, or whose results it reads, unless it already does so
// through another.
std::vector<std::vector<std::int16_t>> dependencies(const std::vector<Step>& steps, const std::vector<Buffer>& buffers) {
  const auto collide = [&](const std::vector<graph::BufferId>& a, const std::vector<graph::BufferId>& b) {
    for (const auto x : a)
      for (const auto y : b) {
        const Buffer &left = buffers[x], &right = buffers[y];
        if (left.region == right.region && left.offset < right.offset + row_stride(right) &&
            right.offset < left.offset + row_stride(left))
          return true;
      }
    return false;
  };
  std::vector<Access> accesses;
  for (const Step& step : steps) accesses.push_back(access_of(step));

  std::vector<std::vector<std::int16_t>> result(steps.size());
  std::vector<std::vector<bool>> reaches(steps.size(), std::vector<bool>(steps.size()));
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (std::size_t j = i; j-- > 0;) {
      if (reaches[i][j]) continue;
      const Access &later = accesses[i], &earlier = accesses[j];
      const bool kv = earlier.kv_write >= 0 && (earlier.kv_write == later.kv_read || earlier.kv_write == later.kv_write);
      const bool overwritten_kv = later.kv_write >= 0 && later.kv_write == earlier.kv_read;
      if (!earlier.makes_rows && !kv && !overwritten_kv && !collide(earlier.writes, later.reads) && !collide(earlier.writes, later.writes) &&
          !collide(earlier.reads, later.writes))
        continue;
      result[i].insert(result[i].begin(), static_cast<std::int16_t>(j));
      reaches[i][j] = true;
      for (std::size_t k = 0; k < j; ++k)
        if (reaches[j][k]) reaches[i][k] = true;
    }
  return result;
}

// Values that lie at the same place under the same name, as those of different layers do, are one buffer.
graph::BufferId buffer_for(Placed& placed, const Value& value, std::int64_t offset) {
  std::size_t id = 0;
  for (; id < placed.buffers.size(); ++id) {
    const Buffer& buffer = placed.buffers[id];
    if (placed.buffer_names[id] == value.name && buffer.region == value.region && buffer.row_bytes == value.row_bytes && buffer.offset == offset) break;
  }
  if (id == placed.buffers.size()) {
    placed.buffers.push_back({{}, value.region, value.row_bytes, offset});
    placed.buffer_names.push_back(value.name);
  }
  return static_cast<graph::BufferId>(id);
}

template <class Ids, class From>
void fill(Ids& ids, const std::vector<From>& from, const std::vector<graph::BufferId>& buffer_of) {
  assert(from.size() <= ids.size());
  for (std::size_t i = 0; i < from.size(); ++i) ids[i] = buffer_of[from[i]];
}

}  // namespace

Placed place(const Lowered& lowered) {
  const std::vector<Life> lives = lives_of(lowered);
  const Placement placement = offsets_of(lowered, lives);

  Placed placed;
  std::vector<graph::BufferId> buffer_of(lowered.values.size(), graph::kNone);
  for (std::size_t value = 0; value < lowered.values.size(); ++value) {
    if (lives[value].first < 0) continue;
    buffer_of[value] = buffer_for(placed, lowered.values[value], placement.offsets[value]);
  }
  placed.region_bytes = placement.region_bytes;

  for (const Node& node : lowered.nodes) {
    Step step;
    step.op = node.fused;
    step.rows = node.rows;
    step.layer = node.layer;
    fill(step.in, node.in, buffer_of);
    fill(step.out, node.out, buffer_of);
    assert(node.weights.size() <= step.weights.size());
    std::copy(node.weights.begin(), node.weights.end(), step.weights.begin());
    step.constants = node.constants;
    step.tap = node.tap;
    step.dims = &placed.dims.emplace_back(node.dims);
    placed.steps.push_back(step);
  }
  const std::vector<std::vector<std::int16_t>> waits = dependencies(placed.steps, placed.buffers);
  for (std::size_t i = 0; i < waits.size(); ++i) {
    placed.steps[i].first_wait = static_cast<std::uint16_t>(placed.waits.size());
    placed.steps[i].wait_count = static_cast<std::uint16_t>(waits[i].size());
    placed.waits.insert(placed.waits.end(), waits[i].begin(), waits[i].end());
  }
  return placed;
}

}  // namespace lapidary::codegen
