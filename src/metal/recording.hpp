// A segment as dispatches over fixed memory, recorded once for each number of rows and each length of the context.
#pragma once

#include <functional>
#include <vector>

#include "link/link.hpp"
#include "metal/device_memory.hpp"
#include "metal/weights.hpp"

namespace lapidary::metal {

struct RecordedStep {
  const graph::Step* step = nullptr;
  bool barrier = false;                // waits for all before it
  std::vector<Dispatch> dispatches;    // one after the other; none: done by the step before it
};

// What a segment is recorded for.
struct Variant {
  graph::SegmentId segment{};
  int rows = 1;                        // of a round; of a prompt the most a chunk has, of a longer catch_up the most that wait
  int kv_ranges = 1;                   // of a round: as in BoundStep

  auto operator<=>(const Variant&) const = default;
};

// Which kernels its rows go through.
NumericClass numeric_of(const Variant& variant);

// The steps of a segment, with all pipelines they take. bind(i): step number i; `joins`: what goes with the step before it does.
std::vector<RecordedStep> record_steps(Gpu& gpu, const link::Program& program, const graph::Segment& segment, bool joins,
                                       const std::function<BoundStep(std::size_t)>& bind);

// Where operands lie.
struct BoundOperand {
  Slice slice;
  layout::Operand operand{};
};
using BindOperand = std::function<BoundOperand(graph::BufferId)>;

// The parameters of a step, which do not depend on its rows.
layout::Step placed_params(const graph::Step& step, const BindOperand& bind_operand, const Weights& weights);
// A step with its operands and weights.
BoundStep bind_step(const graph::Step& step, const BindOperand& bind_operand, const Weights& weights);

class Recorder {
 public:
  Recorder(Gpu& gpu, const link::Program& program, const Weights& weights, DeviceMemory& memory);

  // With all pipelines it takes.
  std::vector<RecordedStep> record(const Variant& variant) const;

  BoundOperand bind_operand(const graph::Segment& segment, const graph::Step& step, graph::BufferId id) const;

 private:
  Slice row_table(graph::RowSet rows) const;
  BoundStep bind(const Variant& variant, const graph::Step& step, std::size_t number) const;

  Gpu& gpu_;
  const link::Program& program_;
  const Weights& weights_;
  const DeviceMemory& memory_;
  std::array<std::size_t, graph::kSegmentCount> first_step_{};  // number of a segment's first step
};

}  // namespace lapidary::metal
