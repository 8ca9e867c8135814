// Runs the stages from a model to a complete graph.
#include "stages.hpp"

namespace lapidary::codegen {

Built::Built(Model model) : model_(std::move(model)) {
  segments_.reserve(graph::kSegmentCount);
  for (int id = 0; id < graph::kSegmentCount; ++id) {
    Lowered lowered = lower(model_, static_cast<graph::SegmentId>(id), weights_);
    fuse(lowered);
    Placed& placed = segments_.emplace_back(place(lowered));
    for (std::size_t i = 0; i < placed.buffers.size(); ++i) placed.buffers[i].name = placed.buffer_names[i];
    for (std::size_t i = 0; i < placed.steps.size(); ++i) placed.steps[i].after = placed.after[i];
    graph_.segments[id] = {placed.buffers, placed.steps, placed.region_bytes};
  }
  for (const Slot& slot : weights_.slots) slots_.push_back({slot.name, slot.owner, slot.kind, slot.experts, slot.rows, slot.cols});
  for (const auto& frequencies : model_.frequencies) constants_.push_back(frequencies.values);
  graph_.name = model_.name;
  graph_.shape = model_.shape;
  graph_.assistant = model_.assistant ? &*model_.assistant : nullptr;
  graph_.chunk_max = model_.chunk_max;
  graph_.verify_max = model_.verify_max;
  graph_.weights = slots_;
  graph_.constants = constants_;
}

}  // namespace lapidary::codegen
