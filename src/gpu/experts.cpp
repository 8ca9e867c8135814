#include <cassert>

#include "gpu/product.hpp"

namespace lapidary::gpu {

// One threadgroup for each tile of outputs and each pick of a block of rows; where an earlier pick has the expert, it
// leaves.
Dispatch expert_product(const BoundStep& bound) {
  const graph::Step& step = *bound.step;
  const int used = step.dims->experts_used;
  assert(used <= 32 && "one lane looks at one pick of a row");
  Dispatch dispatch = with_matrices(std::string(graph::name_of(step.op)), bound);
  const int block_rows = bound.numeric == NumericClass::prompt ? graph::kMaxVerifyRows : bound.rows;
  assert(block_rows <= graph::kMaxVerifyRows);
  dispatch.constants.push_back({kRowsConstant, block_rows});
  dispatch.groups_x = tiles_of(bound.matrices[0].matrix->rows, layout::kGroupOutputs);
  dispatch.rows_per_group = block_rows;
  dispatch.groups_z = block_rows * used;
  dispatch.threads = layout::kGroupThreads;
  return dispatch;
}

}  // namespace lapidary::gpu
