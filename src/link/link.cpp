#include "link/link.hpp"

#include <algorithm>
#include <utility>

namespace lapidary::link {

using graph::WeightClass;
using graph::WeightSlot;

namespace {

// The context is decided at load, not by the graph.
bool equal_but_for_context(graph::Shape a, const graph::Shape& b) {
  a.max_positions = b.max_positions;
  return a == b;
}

bool equal_but_for_context(const graph::AssistantShape& a, const graph::AssistantShape& b) {
  return equal_but_for_context(a.text, b.text) && a.target_hidden == b.target_hidden && a.centroids == b.centroids &&
         a.centroids_used == b.centroids_used;
}

bool equal_but_for_context(graph::DFlashShape a, const graph::DFlashShape& b) {
  a.max_positions = b.max_positions;
  return a == b;
}

TokenCost cost_of(const Program& program, std::initializer_list<graph::SegmentId> segments) {
  TokenCost cost;
  for (const graph::SegmentId id : segments)
    for (const graph::Step& step : program.graph->segment(id).steps) {
      if (!runs(program, step)) continue;
      ++cost.steps;
      cost.weight_bytes += weight_bytes(program, step);
    }
  return cost;
}

}  // namespace

const graph::Graph* try_find_graph(const graph::Shape& shape, const graph::AssistantShape* assistant, const graph::DFlashShape* dflash) {
  for (const graph::Graph* graph : graph::compiled_graphs()) {
    if (!equal_but_for_context(shape, graph->shape)) continue;
    if (assistant && !(graph->assistant && equal_but_for_context(*assistant, *graph->assistant))) continue;
    if (dflash && !(graph->dflash && equal_but_for_context(*dflash, *graph->dflash))) continue;
    return graph;
  }
  return nullptr;
}

const graph::Graph& find_graph(const graph::Shape& shape, const std::string& where) {
  if (const graph::Graph* graph = try_find_graph(shape)) return *graph;
  std::string names;
  for (const graph::Graph* graph : graph::compiled_graphs()) names += (names.empty() ? "" : ", ") + std::string(graph->name);
  fail(ErrorKind::no_graph, where,
       "no compiled graph has this shape, expected one of " + names + "; a build with -Dextra_graphs=FOLDER adds it");
}

Program begin_program(Origin target, std::optional<Origin> assistant, const graph::Graph& graph, const Options& options,
                      std::optional<Origin> dflash) {
  const std::int32_t max_positions = target.max_positions;
  const Drafters drafters{assistant.has_value(), dflash.has_value()};
  Program program{.target = std::move(target), .assistant = std::move(assistant), .dflash = std::move(dflash), .graph = &graph,
                  .backend = options.backend ? options.backend : backends().front(),
                  .backend_options = options.backend_options, .numeric = options.numeric,
                  .plan = plan_memory(graph, max_positions, drafters, options),
                  .matrices = {}, .vectors = {}, .ids = {}, .constants = {}, .orders = {}, .prepared = {}};
  check_limit(program.plan);
  return program;
}

void finish_program(Program& program) {
  for (const Matrix& matrix : program.matrices)
    if (matrix.values) program.plan.weights_mapped_bytes += matrix.total_bytes();
  program.plan.repacked_bytes = program.backend->repacked_bytes(program);
  program.plan.room_bytes = program.backend->room_bytes(program);
  check_limit(program.plan);
}

const float* key_norm(const Program& program, int layer) {
  return program.vectors[key_norm_weight(*program.graph, layer)];
}

std::int64_t bytes_per_row(const Program& program, const graph::Step& step, graph::WeightId id) {
  const WeightSlot& slot = program.graph->weights[id];
  if (slot.kind == WeightClass::vector || slot.kind == WeightClass::kernel)
    return std::int64_t{slot.rows} * slot.cols * std::int64_t{sizeof(float)};
  const std::int64_t listed = std::int64_t{step.dims->experts_used} * step.dims->n[0];  // tokens of cluster_logits
  if (slot.kind == WeightClass::ids) return listed * std::int64_t{sizeof(std::int32_t)};
  const Matrix& matrix = program.matrices[id];
  const auto total = static_cast<std::int64_t>(matrix.values ? matrix.total_bytes() : 0);
  const graph::Reads reads = info_of(step.op).reads;
  if (reads == graph::Reads::listed) return total / slot.rows * listed;
  if (reads == graph::Reads::row) return total / slot.rows;
  if (slot.kind == WeightClass::experts) return total / slot.experts * step.dims->experts_used;
  return total;
}

std::int64_t weight_bytes(const Program& program, const graph::Step& step, std::size_t rows) {
  std::int64_t bytes = 0;
  for (const graph::WeightId id : step.weights) {
    if (id == graph::kNone) continue;
    const Matrix& matrix = program.matrices[id];
    const std::int64_t all = matrix.values ? static_cast<std::int64_t>(matrix.total_bytes())
                                           : std::int64_t{program.graph->weights[id].cols} * 4;
    bytes += std::min(all, static_cast<std::int64_t>(rows) * bytes_per_row(program, step, id));
  }
  return bytes;
}

TokenCost cost_of_token(const Program& program) {
  return cost_of(program, {graph::SegmentId::forward, graph::SegmentId::head, graph::SegmentId::select});
}

TokenCost cost_of_draft(const Program& program) { return cost_of(program, {graph::SegmentId::draft}); }

TokenCost cost_of_block(const Program& program) {
  return cost_of(program, {graph::SegmentId::catch_up, graph::SegmentId::block});
}

std::int64_t products_of(const graph::Graph& graph, const graph::Tower& tower, std::int32_t rows, std::int32_t columns) {
  const std::int64_t percept = std::int64_t{rows} * columns, soft = tower.soft_tokens(rows, columns);
  std::int64_t products = 0;
  for (const graph::Step& step : tower.segment.steps) {
    const graph::Dims& d = *step.dims;
    const std::int64_t count = step.rows == graph::RowSet::percept   ? percept
                               : step.rows == graph::RowSet::halved  ? graph::Tower::halved(rows)
                               : step.rows == graph::RowSet::soft    ? soft
                                                                     : d.window;
    const std::int64_t heads = std::int64_t{d.heads} * d.head_dim;
    if (step.op == graph::Op::attention_all) products += 2 * count * count * heads;
    if (step.op == graph::Op::local_attention) products += 3 * count * d.window * heads;
    if (step.op == graph::Op::conv_norm_relu)
      products += count * (d.n[0] / d.channels) * graph.weights[step.weights[0]].rows * graph.weights[step.weights[0]].cols;
    for (const graph::WeightId id : step.weights)
      if (id != graph::kNone && graph.weights[id].kind == WeightClass::matrix)
        products += count * graph.weights[id].rows * graph.weights[id].cols;
  }
  return products;
}

std::string variant_name(const Program& program, const graph::Step& step, std::string_view arithmetic) {
  std::string text = std::string(name_of(step.op)) + "_" + std::string(arithmetic), last;
  for (const graph::WeightId id : step.weights) {
    if (id == graph::kNone || !program.matrices[id].values) continue;
    const std::string storage = name_of(program.matrices[id].storage);
    if (storage != last) text += " " + storage;
    last = storage;
  }
  return text;
}

}  // namespace lapidary::link
