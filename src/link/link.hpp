// Binds a graph to a checkpoint: every weight slot gets its bytes and storage type, everything is checked once and never
// again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "link/backend.hpp"
#include "link/origin.hpp"
#include "link/plan.hpp"
#include "link/weight.hpp"

namespace lapidary::link {

// What a backend makes of weights at load, where it was made before and is mapped.
struct Prepared {
  std::string_view kind{};  // by Backend::prepared_kind
  std::span<const std::byte> bytes{};
};

// What a tower multiplies with.
struct TowerWeights {
  std::vector<Matrix> matrices;          // by WeightId; empty for all that are not its own
  std::vector<const float*> vectors;     // by WeightId, kernels too; null likewise
  std::unique_ptr<float[]> constants;    // what `vectors` points into, where that is not mapped
};

struct Program {
  Origin target;
  std::optional<Origin> assistant;       // drafts for it, one token after the other,
  std::optional<Origin> dflash;          // or a block at once
  const graph::Graph* graph = nullptr;
  const Backend* backend = nullptr;      // it was linked for, with these options
  BackendOptions backend_options{};
  Numeric numeric = Numeric::exact;
  MemoryPlan plan;
  std::vector<Matrix> matrices;          // by WeightId; without values for vectors, what towers have and drafters that are left out
  std::vector<const float*> vectors;     // by WeightId; null for all but vectors
  std::vector<const std::int32_t*> ids;  // by WeightId; null for all but ids
  std::unique_ptr<float[]> constants;    // what `vectors` points into, where that is not mapped
  std::unique_ptr<std::int32_t[]> orders;  // what `ids` points into, likewise
  Prepared prepared{};
  // Texts need nothing of it, so it is asked when a tower first perceives: nothing of its weights is read before. Throws where the
  // model has another tower than the graph, or lacks its tensors.
  std::function<TowerWeights(const graph::Tower&)> bind_tower{};

  Drafters drafters() const { return {assistant.has_value(), dflash.has_value()}; }
};

// The compiled graph for a model of this shape, with those of these drafters that are not null; null where there is none.
const graph::Graph* try_find_graph(const graph::Shape& shape, const graph::AssistantShape* assistant = nullptr,
                                   const graph::DFlashShape* dflash = nullptr);
// The same; says what is missing. `where` names the model.
const graph::Graph& find_graph(const graph::Shape& shape, const std::string& where);

// Without a drafter nothing of its is bound, and its segments cannot run.
Program link(Checkpoint checkpoint, std::optional<Checkpoint> assistant, const graph::Graph& graph, const Options& options,
             std::optional<Checkpoint> dflash = std::nullopt);

// The two ends of linking, whatever the weights are bound to: what is planned before, and after.
Program begin_program(Origin target, std::optional<Origin> assistant, const graph::Graph& graph, const Options& options,
                      std::optional<Origin> dflash = std::nullopt);
void finish_program(Program& program);

// Outputs of layers are kept for the DFlash drafter alone.
inline bool runs(const Program& program, const graph::Step& step) { return step.op != graph::Op::keep_tap || program.dflash; }

// The norm of the keys of a layer that owns its K/V. [head_dim]
const float* key_norm(const Program& program, int layer);

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
TokenCost cost_of_block(const Program& program);  // all drafts of a round by the DFlash drafter, and the context of one row

// Multiplications of a tower for an input of so many rows and columns: those of its matrices and of its attention.
std::int64_t products_of(const graph::Graph& graph, const graph::Tower& tower, std::int32_t rows, std::int32_t columns);

// "linear_q8 affine4/64": the kernel variant a step is bound to.
inline std::string variant_of(const Program& program, const graph::Step& step) { return program.backend->variant_of(program, step); }
// The same where `arithmetic` says how the step computes: "q8".
std::string variant_name(const Program& program, const graph::Step& step, std::string_view arithmetic);

}  // namespace lapidary::link
