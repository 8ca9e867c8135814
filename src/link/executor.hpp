// What the decoder knows of a backend.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "graph/graph.hpp"
#include "graph/row.hpp"

namespace lapidary::link {

// Receives the residual stream after a layer: [rows of the step, hidden], row r at data + r * stride floats.
using Tap = std::function<void(int layer, const float* data, std::size_t stride)>;

class Executor {
 public:
  virtual ~Executor() = default;

  // Replays recorded segments, one after the other, for the rows of `state`.
  virtual void run(std::span<const graph::SegmentId> segments, const graph::RoundState& state, const Tap& tap = {}) = 0;

  // Results of the last run, by row of the output window.
  virtual std::span<const float> hidden(int output) const = 0;  // [hidden], after the final norm
  virtual std::span<const float> logits(int output) const = 0;  // [vocab]
  virtual std::int32_t next(int output) const = 0;

  // K and V of one position as stored, [head_dim] each.
  virtual std::span<const float> key(int slot, int layer, int kv_head, int position) const = 0;
  virtual std::span<const float> value(int slot, int layer, int kv_head, int position) const = 0;
};

}  // namespace lapidary::link
