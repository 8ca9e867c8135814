#include "metal/recording.hpp"

#include <algorithm>
#include <cassert>

namespace lapidary::metal {

using graph::Region;
using graph::RowSet;
using graph::SegmentId;

NumericClass numeric_of(const Variant& variant) {
  switch (variant.segment) {
    case SegmentId::prefill:
    case SegmentId::prefill_all:
    case SegmentId::extend: return NumericClass::prompt;
    case SegmentId::catch_up: return variant.rows > graph::kMaxVerifyRows ? NumericClass::prompt : NumericClass::round;
    default: return NumericClass::round;
  }
}

layout::Step placed_params(const graph::Step& step, const BindOperand& bind_operand, const Weights& weights) {
  layout::Step params = params_of(step);
  for (std::size_t i = 0; i < 4; ++i) {
    params.in[i] = bind_operand(step.in[i]).operand;
    params.out[i] = bind_operand(step.out[i]).operand;
  }
  int matrices = 0;
  for (const graph::WeightId weight : step.weights) {
    const link::Matrix* matrix = weight == graph::kNone ? nullptr : weights.matrix(weight).matrix;
    if (matrix) params.matrix[matrices++] = layout_of(*matrix);
  }
  return params;
}

BoundStep bind_step(const graph::Step& step, const BindOperand& bind_operand, const Weights& weights) {
  BoundStep bound;
  bound.step = &step;
  for (std::size_t i = 0; i < 4; ++i) {
    bound.in[i] = bind_operand(step.in[i]).slice;
    bound.out[i] = bind_operand(step.out[i]).slice;
  }
  for (std::size_t i = 0; i < step.weights.size(); ++i) {
    const graph::WeightId weight = step.weights[i];
    if (weight == graph::kNone) continue;
    bound.matrices[i] = weights.matrix(weight);
    bound.vectors[i] = weights.vector(weight);
  }
  if (step.constants != graph::kNone) bound.constants = weights.constants(step.constants);
  return bound;
}

std::vector<RecordedStep> record_steps(Gpu& gpu, const link::Program& program, const graph::Segment& segment, bool joins,
                                       const std::function<BoundStep(std::size_t)>& bind) {
  std::vector<RecordedStep> steps;
  std::size_t last_barrier = 0;  // number of the step it stands before
  // A barrier holds for all that came before it, so only what came since then can make another one necessary.
  const auto waits = [&](std::size_t i) {
    return i == 0 || std::ranges::any_of(segment.waits_of(segment.steps[i]), [&](std::int16_t earlier) {
      return static_cast<std::size_t>(earlier) >= last_barrier;
    });
  };
  for (std::size_t i = 0; i < segment.steps.size(); ++i) {
    if (!runs(program, segment.steps[i])) continue;
    const bool with_next = joins && i + 1 < segment.steps.size() && goes_with_last(segment, i + 1);
    const bool barrier = waits(i) || (with_next && waits(i + 1));
    if (barrier) last_barrier = i;
    RecordedStep& recorded = steps.emplace_back(RecordedStep{&segment.steps[i], barrier, {}});
    if (with_next) recorded.dispatches = {linear_route(bind(i), bind(i + 1))};
    else recorded.dispatches = dispatches_of(bind(i));
    for (Dispatch& dispatch : recorded.dispatches) gpu.prepare(dispatch);
    if (with_next) steps.push_back({&segment.steps[++i], false, {}});
  }
  return steps;
}

// Parameters do not depend on the variant: they are written here, once.
Recorder::Recorder(Gpu& gpu, const link::Program& program, const Weights& weights, DeviceMemory& memory)
    : gpu_(gpu), program_(program), weights_(weights), memory_(memory) {
  std::size_t number = 0;
  for (int id = 0; id < graph::kSegmentCount; ++id) {
    first_step_[static_cast<std::size_t>(id)] = number;
    const graph::Segment& segment = program.graph->segments[static_cast<std::size_t>(id)];
    if (!program.drafters().runs(static_cast<SegmentId>(id))) {
      number += segment.steps.size();
      continue;
    }
    for (const graph::Step& step : segment.steps) {
      layout::Step params = placed_params(step, [&](graph::BufferId buffer) { return bind_operand(segment, step, buffer); }, weights);
      params.kv_capacity = program.plan.kv[static_cast<std::size_t>(step.dims->kv_layer)].capacity;
      params.kv_slot_bytes = program.plan.session_bytes;
      params.vocab = program.graph->shape.vocab;
      params.mask_token = program.dflash ? program.graph->dflash->mask_token : 0;
      *contents<layout::Step>(behind(memory.params, number * DeviceMemory::kParamsStride)) = params;
      ++number;
    }
  }
}

BoundOperand Recorder::bind_operand(const graph::Segment& segment, const graph::Step& step, graph::BufferId id) const {
  if (id == graph::kNone) return {};
  const graph::Buffer& buffer = segment.buffers[static_cast<std::size_t>(id)];
  const link::MemoryPlan& plan = program_.plan;
  const auto offset = static_cast<std::size_t>(buffer.offset);
  const auto row_capacity = static_cast<std::size_t>(plan.row_capacity);
  BoundOperand bound{.slice = memory_.arena, .operand = {0, static_cast<std::uint32_t>(row_stride(buffer)), 0}};
  switch (buffer.region) {
    case Region::outputs: bound.slice.offset_bytes += offset * static_cast<std::size_t>(plan.verify_rows); break;
    case Region::rows:
      bound.slice.offset_bytes += plan.output_region_bytes + offset * row_capacity;
      bound.operand.windowed = step.rows == RowSet::last;
      break;
    case Region::draft: bound.slice.offset_bytes += plan.output_region_bytes + offset; break;
    case Region::session:
      if (id == graph::kPending) {
        if (!program_.dflash) return {};
        const auto& features = segment.buffers[static_cast<std::size_t>(graph::kFeatures)];
        bound = {behind(memory_.kv, plan.pending_offset_bytes), {plan.session_bytes, static_cast<std::uint32_t>(features.row_bytes), 0}};
        break;
      }
      bound.slice = behind(memory_.kv, plan.carry_offset_bytes + offset);
      bound.operand = {plan.session_bytes, 0, 0};
      break;
    case Region::features:
      if (!program_.dflash) return {};
      bound.slice.offset_bytes += plan.features_offset_bytes + offset * row_capacity;
      bound.operand.windowed = step.rows == RowSet::last;
      break;
    case Region::given: assert(false && "of towers");
  }
  return bound;
}

Slice Recorder::row_table(RowSet rows) const {
  switch (rows) {
    case RowSet::draft: return memory_.draft_row;
    case RowSet::pending: return memory_.pending_rows;
    case RowSet::block: return memory_.block_rows;
    case RowSet::block_causal: return behind(memory_.block_rows, layout::kRowsMax * sizeof(layout::Row));
    default: return memory_.now.rows;
  }
}

BoundStep Recorder::bind(const Variant& variant, const graph::Step& step, std::size_t number) const {
  const graph::Segment& segment = program_.graph->segment(variant.segment);
  BoundStep bound = bind_step(step, [&](graph::BufferId buffer) { return bind_operand(segment, step, buffer); }, weights_);
  bound.numeric = numeric_of(variant);
  bound.rows = step.rows == RowSet::draft ? 1 : variant.rows;
  bound.params = behind(memory_.params, number * DeviceMemory::kParamsStride);
  bound.run = memory_.now.run;
  bound.row_table = row_table(step.rows);
  bound.states = memory_.states;
  bound.counts = memory_.counts;
  bound.masks = memory_.now.masks;
  bound.biases = memory_.now.biases;
  bound.results = memory_.results;
  bound.kv_ranges = variant.kv_ranges;
  bound.scratch = memory_.scratch;
  if (reads_kv(step) || writes_kv(step)) {
    const link::KvPlacement& kv = program_.plan.kv[static_cast<std::size_t>(step.dims->kv_layer)];
    bound.keys = behind(memory_.kv, kv.k_offset_bytes);
    bound.values = behind(memory_.kv, kv.v_offset_bytes);
    bound.kv_stores = kv.stores;
    if (kv.stores.one) bound.key_norm = weights_.vector(link::key_norm_weight(*program_.graph, step.dims->kv_layer));
  }
  return bound;
}

std::vector<RecordedStep> Recorder::record(const Variant& variant) const {
  const graph::Segment& segment = program_.graph->segment(variant.segment);
  return record_steps(gpu_, program_, segment, numeric_of(variant) == NumericClass::round, [&](std::size_t i) {
    return bind(variant, segment.steps[i], first_step_[static_cast<std::size_t>(variant.segment)] + i);
  });
}

}  // namespace lapidary::metal
