// Binds a graph to a checkpoint: every weight slot gets its bytes and storage type, everything is checked once and never
// again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "graph/graph.hpp"
#include "link/plan.hpp"
#include "link/weight.hpp"

namespace lapidary::link {

struct Program {
  Checkpoint checkpoint;                 // keeps the files mapped
  std::optional<Checkpoint> assistant;   // drafts for it
  const graph::Graph* graph = nullptr;
  Backend backend = Backend::cpu;
  Numeric numeric = Numeric::exact;
  MemoryPlan plan;
  std::vector<Matrix> matrices;          // by WeightId; empty for vectors
  std::vector<const float*> vectors;     // by WeightId; null for all but vectors
  std::vector<const std::int32_t*> ids;  // by WeightId; null for all but ids
  std::unique_ptr<float[]> constants;    // what `vectors` points into
  std::unique_ptr<std::int32_t[]> orders;  // what `ids` points into
};

// The compiled graph for a model of this shape, with this assistant if it is not null; null where there is none.
const graph::Graph* try_find_graph(const graph::Shape& shape, const graph::AssistantShape* assistant = nullptr);
// The same; says what is missing. `where` names the model.
const graph::Graph& find_graph(const graph::Shape& shape, const std::string& where);

// Without an assistant nothing of its is bound, and the draft segment cannot run.
Program link(Checkpoint checkpoint, std::optional<Checkpoint> assistant, const graph::Graph& graph, const Options& options);

// Whether the step multiplies quantised activations.
bool is_q8(const Program& program, const graph::Step& step);
// What one thread needs room for in such steps: 8 quantised rows of the longest input, factors of 8 rows of the most groups, 8 rows
// of the longest output that waits for its gate.
struct Q8RoomSize {
  std::size_t inputs = 0, groups = 0, outputs = 0;

  std::size_t quantised_bytes() const { return 8 * inputs; }
  std::size_t factor_bytes() const { return 8 * 8 * groups * sizeof(float); }  // 8 for each row and group
  std::size_t product_bytes() const { return 8 * outputs * sizeof(float); }
  std::size_t bytes() const { return quantised_bytes() + factor_bytes() + product_bytes(); }
};
Q8RoomSize q8_room_size(const Program& program);

// Bytes of a weight that one row of `step` reads: one row of a table it looks up, the experts in use.
std::int64_t bytes_per_row(const Program& program, const graph::Step& step, graph::WeightId id);

// Bytes of all weights that so many rows of `step` read: a matrix once, rows of a table and experts for each row, but never more
// than there are.
std::int64_t weight_bytes(const Program& program, const graph::Step& step, std::size_t rows = 1);

// What one decoded token costs.
struct TokenCost {
  std::int64_t weight_bytes = 0;
  std::size_t steps = 0;
};
TokenCost cost_of_token(const Program& program);
TokenCost cost_of_draft(const Program& program);  // one more draft by the assistant

// "linear_q8 affine4/64": the kernel variant a step is bound to.
std::string variant_of(const Program& program, const graph::Step& step);

}  // namespace lapidary::link
