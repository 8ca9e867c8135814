#include "gpu/step.hpp"

#include <algorithm>
#include <cassert>

namespace lapidary::gpu {

using graph::Op;

std::vector<Dispatch> dispatches_of(const BoundStep& bound) {
  switch (bound.step->op) {
    case Op::embed:
    case Op::embed_pair:
    case Op::ple_inputs:
    case Op::linear:
    case Op::linear_gelu_mul:
    case Op::linear_gelu_gate:
    case Op::linear_softcap:
    case Op::expert_gelu_mul:
    case Op::expert_linear:
    case Op::cluster_logits: return product(bound);
    case Op::rope_angles:
    case Op::rms_norm:
    case Op::qkv_norm_rope:
    case Op::residual_norm:
    case Op::moe_combine:
    case Op::route:
    case Op::top: return norm(bound);
    case Op::attention: return attention(bound);
    case Op::round_rows:
    case Op::sample:
    case Op::keep_draft:
    case Op::accept: return choice(bound);
  }
  assert(false && "no such op");
  return {};
}

bool goes_with_last(const graph::Segment& segment, std::size_t i) {
  if (i == 0 || segment.steps[i].op != Op::route) return false;
  const graph::Step& last = segment.steps[i - 1];
  return last.op == Op::linear && last.dims.n[1] == 0 && last.rows == segment.steps[i].rows &&
         !std::ranges::count(segment.steps[i].after, static_cast<std::int16_t>(i - 1));
}

layout::Step params_of(const graph::Step& step) {
  const graph::Dims& d = step.dims;
  layout::Step params{};
  params.rows = step.rows == graph::RowSet::draft ? layout::kOneRow
                : step.rows == graph::RowSet::last ? layout::kOutputRows : layout::kAllRows;
  params.k = d.k;
  std::copy_n(d.n.begin(), 3, params.n);
  params.heads = d.heads;
  params.kv_heads = d.kv_heads;
  params.head_dim = d.head_dim;
  params.window = d.window;
  params.experts = d.experts;
  params.experts_used = d.experts_used;
  params.offset = d.offset;
  params.scaled_output = d.scaled_output;
  params.scale = d.scale;
  params.scale2 = d.scale2;
  params.epsilon = d.epsilon;
  params.owns_kv = d.owns_kv;
  params.values_are_keys = d.values_are_keys;
  params.has_scalar = step.op == Op::residual_norm && step.weights[1] != graph::kNone;
  return params;
}

std::vector<Binding> common_bindings(const BoundStep& bound) {
  std::vector<Binding> bindings;
  const auto bind = [&](int index, const Slice& slice) {
    if (slice) bindings.push_back({index, slice});
  };
  bind(kStepAt, bound.params);
  bind(kRunAt, bound.run);
  bind(kRowsAt, bound.row_table);
  bind(kStatesAt, bound.states);
  for (int i = 0; i < 4; ++i) bind(kInAt + i, bound.in[i]);
  for (int i = 0; i < 4; ++i) bind(kOutAt + i, bound.out[i]);
  return bindings;
}

}  // namespace lapidary::gpu
