#include "gpu/step.hpp"

#include <algorithm>
#include <cassert>

namespace lapidary::gpu {

using graph::Op;

namespace {

void assign(auto& to, auto from) { to = from; }
void assign(int (&to)[3], const std::array<std::int32_t, 3>& from) { std::ranges::copy(from, to); }

Slice extra_of(const BoundStep& bound, graph::Extra extra) {
  switch (extra) {
    case graph::Extra::none: return {};
    case graph::Extra::scratch: return bound.scratch;
    case graph::Extra::counts: return bound.counts;
    case graph::Extra::masks: return bound.masks;
    case graph::Extra::biases: return bound.biases;
    case graph::Extra::results: return bound.results;
  }
  return {};
}

}  // namespace

std::vector<Dispatch> dispatches_of(const BoundStep& bound) {
  switch (bound.step->op) {
    case Op::embed:
    case Op::embed_pair:
    case Op::ple_inputs:
    case Op::linear:
    case Op::linear_gelu_mul:
    case Op::linear_silu_mul:
    case Op::linear_gelu_gate:
    case Op::linear_softcap:
    case Op::linear_bias:
    case Op::linear_silu:
    case Op::expert_gelu_mul:
    case Op::expert_linear:
    case Op::cluster_logits: return product(bound);
    case Op::rope_angles:
    case Op::rms_norm:
    case Op::qkv_norm_rope:
    case Op::block_qkv:
    case Op::residual_norm:
    case Op::moe_combine:
    case Op::route:
    case Op::top:
    case Op::layer_norm:
    case Op::add_norm:
    case Op::glu_conv: return norm(bound);
    case Op::attention: return attention(bound);
    case Op::round_rows:
    case Op::sample:
    case Op::keep_draft:
    case Op::keep_block:
    case Op::accept:
    case Op::keep_tap: return choice(bound);
    case Op::scale_shift:
    case Op::add_positions:
    case Op::grid_angles:
    case Op::qkv_grid_rope:
    case Op::attention_all:
    case Op::pool:
    case Op::conv_norm_relu:
    case Op::distance_waves:
    case Op::local_attention: return tower(bound);
  }
  assert(false && "no such op");
  return {};
}

static_assert(int{layout::kKvF32} == int(link::KvCode::f32) && int{layout::kKvBf16} == int(link::KvCode::bf16) &&
              int{layout::kKvQ8} == int(link::KvCode::q8) && int{layout::kKvQ4} == int(link::KvCode::q4));

Constant kv_code_constant(const BoundStep& bound) {
  constexpr int kKvCode = 43;
  return {kKvCode, static_cast<int>(bound.kv_stores.value_code)};
}

Constant kv_turned_constant(const BoundStep& bound) {
  constexpr int kKvTurned = 45;
  return {kKvTurned, bound.kv_stores.one ? bound.kv_stores.keys : 0};
}

bool goes_with_last(const graph::Segment& segment, std::size_t i) {
  if (i == 0 || segment.steps[i].op != Op::route) return false;
  const graph::Step& last = segment.steps[i - 1];
  return last.op == Op::linear && last.dims->n[1] == 0 && last.rows == segment.steps[i].rows &&
         !std::ranges::count(segment.waits_of(segment.steps[i]), static_cast<std::int16_t>(i - 1));
}

layout::RowsOfStep rows_of(graph::RowSet rows) {
  switch (rows) {
    case graph::RowSet::draft: return layout::kOneRow;
    case graph::RowSet::last: return layout::kOutputRows;
    case graph::RowSet::pending: return layout::kWaitingRows;
    case graph::RowSet::block:
    case graph::RowSet::block_causal: return layout::kBlockRows;
    default: return layout::kAllRows;
  }
}

layout::Step params_of(const graph::Step& step) {
  layout::Step params{};
  params.rows = rows_of(step.rows);
  graph::for_each_dim([](const char*, auto& to, const auto& from) { assign(to, from); }, params, *step.dims);
  for (std::size_t i = 0; i < step.weights.size(); ++i) params.weights |= (step.weights[i] != graph::kNone) << i;
  return params;
}

layout::MatrixLayout layout_of(const link::Matrix& matrix) {
  const link::Clip& clip = matrix.clip;
  return {matrix.expert_bytes, matrix.scale_expert_bytes, static_cast<std::uint32_t>(matrix.row_bytes),
          static_cast<std::uint32_t>(matrix.scale_row_bytes), clip.input_min, clip.input_max, clip.output_min, clip.output_max};
}

std::vector<Binding> bindings_of(const BoundStep& bound) {
  const graph::OpInfo& info = graph::info_of(bound.step->op);
  std::vector<Binding> bindings;
  const auto bind = [&](int index, const Slice& slice) {
    if (slice) bindings.push_back({index, slice});
  };
  const Slice& other = bound.out[0] ? bound.out[0] : bound.in[0];
  const auto bind_argument = [&](int index, const Slice& slice) { bind(index, slice ? slice : other); };
  bind(kStepAt, bound.params);
  bind(kRunAt, bound.run);
  bind(kRowsAt, bound.row_table);
  bind(kStatesAt, bound.states);
  for (int i = 0; i < info.inputs; ++i) bind_argument(kInAt + i, bound.in[static_cast<std::size_t>(i)]);
  for (int i = 0; i < info.outputs; ++i) bind_argument(kOutAt + i, bound.out[static_cast<std::size_t>(i)]);
  for (std::size_t i = 0; i < info.weights.size(); ++i)
    if (info.weights[i] == graph::WeightUse::vector || info.weights[i] == graph::WeightUse::ids)
      bind_argument(kWeightAt + 3 * static_cast<int>(i), bound.vectors[i]);
  for (std::size_t i = 0; i < info.extras.size() && info.extras[i] != graph::Extra::none; ++i)
    bind_argument(kWeightAt + static_cast<int>(i), extra_of(bound, info.extras[i]));
  if (info.constants) bind(kConstantsAt, bound.constants);
  if (info.kv == graph::Kv::none) return bindings;
  bind_argument(kKeysAt, bound.keys);
  bind_argument(kValuesAt, bound.values);
  return bindings;
}

}  // namespace lapidary::gpu
