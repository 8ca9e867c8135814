#include "link/link.hpp"

#include "link/bind.hpp"

namespace lapidary::link {

using graph::Op;
using graph::WeightClass;
using graph::WeightSlot;

const graph::Graph& find_graph(const Checkpoint& checkpoint) {
  graph::Shape wanted = checkpoint.config().shape;
  std::string names;
  for (const graph::Graph* graph : graph::compiled_graphs()) {
    wanted.max_positions = graph->shape.max_positions;  // the context is decided at load, not by the graph
    if (wanted == graph->shape) return *graph;
    names += (names.empty() ? "" : ", ") + std::string(graph->name);
  }
  fail(ErrorKind::no_graph, checkpoint.folder(),
       "no compiled graph has this shape, expected one of " + names + "; a build with -Dextra_graphs=FOLDER adds it");
}

Program link(Checkpoint checkpoint, const graph::Graph& graph, const Options& options) {
  const std::int32_t max_positions = checkpoint.config().shape.max_positions;
  Program program{.checkpoint = std::move(checkpoint), .graph = &graph, .plan = plan_memory(graph, max_positions, options),
                  .matrices = {}, .vectors = {}, .constants = {}};
  check_limit(program.plan, options);

  const Binder binder(program.checkpoint);
  for (const WeightSlot& slot : graph.weights) binder.check_present(slot);
  program.constants = std::make_unique<float[]>(program.plan.constants_bytes / sizeof(float));
  float* constant = program.constants.get();
  for (const WeightSlot& slot : graph.weights) {
    const bool vector = slot.kind == WeightClass::vector;
    program.matrices.push_back(vector ? Matrix{} : binder.matrix(slot));
    program.vectors.push_back(vector ? constant : nullptr);
    if (vector) {
      binder.vector(slot, constant);
      constant += slot.cols;
    }
    program.plan.weights_mapped_bytes += program.matrices.back().total_bytes();
  }
  return program;
}

std::int64_t bytes_per_row(const Program& program, const graph::Step& step, graph::WeightId id) {
  const WeightSlot& slot = program.graph->weights[id];
  if (slot.kind == WeightClass::vector) return slot.cols * std::int64_t{sizeof(float)};
  const auto total = static_cast<std::int64_t>(program.matrices[id].total_bytes());
  if (step.op == Op::embed || step.op == Op::ple_inputs) return total / slot.rows;
  if (slot.kind == WeightClass::experts) return total / slot.experts * step.dims.experts_used;
  return total;
}

TokenCost cost_of_token(const Program& program) {
  TokenCost cost;
  for (const graph::SegmentId id : {graph::SegmentId::forward, graph::SegmentId::head, graph::SegmentId::select})
    for (const graph::Step& step : program.graph->segment(id).steps) {
      ++cost.steps;
      for (const graph::WeightId weight : step.weights)
        if (weight != graph::kNone) cost.weight_bytes += bytes_per_row(program, step, weight);
    }
  return cost;
}

std::string variant_of(const Program& program, const graph::Step& step) {
  std::string text = std::string(name_of(step.op)) + "_f32", last;
  for (const graph::WeightId id : step.weights) {
    if (id == graph::kNone || program.graph->weights[id].kind == WeightClass::vector) continue;
    const std::string storage = name_of(program.matrices[id].storage);
    if (storage != last) text += " " + storage;
    last = storage;
  }
  return text;
}

}  // namespace lapidary::link
