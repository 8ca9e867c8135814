// Runs the stages from a model to a complete graph.
#include "stages.hpp"

namespace lapidary::codegen {

graph::Segment Built::segment_of(Lowered lowered) {
  fuse(lowered);
  Placed& placed = *placed_.emplace_back(std::make_unique<Placed>(place(lowered)));
  for (std::size_t i = 0; i < placed.buffers.size(); ++i) placed.buffers[i].name = placed.buffer_names[i];
  return {placed.buffers, placed.steps, placed.waits, placed.region_bytes};
}

Built::Built(Model model) : model_(std::move(model)) {
  for (int id = 0; id < graph::kSegmentCount; ++id)
    graph_.segments[id] = segment_of(lower(model_, static_cast<graph::SegmentId>(id), weights_));
  towers_ = towers_of(model_);
  for (graph::Tower& tower : towers_) tower.segment = segment_of(lower_tower(model_, tower, weights_));
  for (const Slot& slot : weights_.slots)
    slots_.push_back({slot.name, slot.owner, slot.kind, slot.clipped, slot.experts, slot.rows, slot.cols});
  constants_ = model_.constants();
  graph_.name = model_.name;
  graph_.shape = model_.shape;
  graph_.assistant = model_.assistant ? &*model_.assistant : nullptr;
  graph_.dflash = model_.dflash ? &*model_.dflash : nullptr;
  graph_.chunk_max = model_.chunk_max;
  graph_.verify_max = model_.verify_max;
  graph_.weights = slots_;
  graph_.constants = constants_;
  graph_.towers = towers_;
}

}  // namespace lapidary::codegen
