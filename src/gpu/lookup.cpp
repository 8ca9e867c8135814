#include <cassert>

#include "gpu/product.hpp"

namespace lapidary::gpu {

using graph::Op;

Dispatch lookup(const BoundStep& bound) {
  const graph::Step& step = *bound.step;
  const graph::Dims& d = *step.dims;
  Dispatch dispatch = with_matrices(std::string(graph::name_of(step.op)), bound);
  const link::Matrix& table = *bound.matrices[0].matrix;
  switch (step.op) {
    case Op::ple_inputs:
      assert(d.n[0] % 16 == 0 && "a lane takes 8 of a pack of 16 entries");
      dispatch.groups_x = tiles_of(d.n[1], 4);  // a simdgroup for each layer
      dispatch.threads = 128;
      return dispatch;
    case Op::cluster_logits:
      dispatch.constants.push_back({kRowsConstant, 1});
      dispatch.groups_x = tiles_of(d.experts_used * d.n[0], layout::kGroupOutputs);
      dispatch.threads = layout::kGroupThreads;
      return dispatch;
    default:
      assert(step.op == Op::embed || step.op == Op::embed_pair);
      dispatch.threads = 64;
      dispatch.groups_x = tiles_of(table.cols, dispatch.threads * 8);  // a thread makes 8 entries
      return dispatch;
  }
}

}  // namespace lapidary::gpu
