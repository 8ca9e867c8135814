// Binds a graph to a checkpoint: every weight slot gets its bytes and storage type, everything is checked once and never
// again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "graph/graph.hpp"
#include "link/plan.hpp"
#include "link/weight.hpp"

namespace lapidary::link {

struct Program {
  Checkpoint checkpoint;                 // keeps the files mapped
  const graph::Graph* graph = nullptr;
  MemoryPlan plan;
  std::vector<Matrix> matrices;          // by WeightId; empty for vectors
  std::vector<const float*> vectors;     // by WeightId; null for matrices
  std::unique_ptr<float[]> constants;    // what `vectors` points into
};

// The compiled graph with the checkpoint's shape.
const graph::Graph& find_graph(const Checkpoint& checkpoint);

Program link(Checkpoint checkpoint, const graph::Graph& graph, const Options& options);

// Bytes of a weight that one row of `step` reads: one row of a table it looks up, the experts in use.
std::int64_t bytes_per_row(const Program& program, const graph::Step& step, graph::WeightId id);

// What one decoded token costs.
struct TokenCost {
  std::int64_t weight_bytes = 0;
  std::size_t steps = 0;
};
TokenCost cost_of_token(const Program& program);

// "linear_f32 affine4/64": the kernel variant a step is bound to.
std::string variant_of(const Program& program, const graph::Step& step);

}  // namespace lapidary::link
