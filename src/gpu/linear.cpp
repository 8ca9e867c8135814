#include <algorithm>
#include <cassert>

#include "gpu/product.hpp"

namespace lapidary::gpu {
namespace {

using graph::Op;

int number_coding(DType type) {
  switch (type) {
    case DType::f16: return layout::kPlainF16;
    case DType::bf16: return layout::kPlainBf16;
    default: return layout::kPlainF32;  // or a floating-point encoding, whose scales are none of the three
  }
}

int coding_of(const Storage& storage) {
  switch (storage.encoding) {
    case Encoding::plain: return number_coding(storage.type);
    case Encoding::affine:
      switch (storage.bits) {
        case 2: return layout::kAffine2;
        case 3: return layout::kAffine3;
        case 4: return layout::kAffine4;
        case 5: return layout::kAffine5;
        case 6: return layout::kAffine6;
        default: assert(storage.bits == 8); return layout::kAffine8;
      }
    case Encoding::mxfp4: return layout::kMxfp4;
    case Encoding::nvfp4: return layout::kNvfp4;
    case Encoding::mxfp8: return layout::kMxfp8;
  }
  assert(false && "no such encoding");
  return layout::kPlainF32;
}

bool clips(const BoundStep& bound) {
  return std::ranges::any_of(bound.matrices, [](const BoundMatrix& one) { return one.matrix && one.matrix->clip != link::Clip{}; });
}

Dispatch linear_product(const BoundStep& bound) {
  const graph::Step& step = *bound.step;
  const bool prompt = bound.numeric == NumericClass::prompt;
  const std::string name(graph::name_of(step.op));
  Dispatch dispatch = with_matrices(prompt ? name + "_prompt" : name, bound);
  assert((prompt || !clips(bound)) && "rounds have no clipped matrices");
  const int tile = prompt ? layout::kTileOutputs : layout::kGroupOutputs;
  dispatch.groups_x = tiles_of(step.dims->n[0], tile);
  // The other matrices of `linear` follow the first.
  if (step.op == Op::linear) dispatch.groups_x += tiles_of(step.dims->n[1], tile) + tiles_of(step.dims->n[2], tile);
  dispatch.rows_per_group = prompt ? layout::kTileRows : graph::kMaxVerifyRows;
  dispatch.threads = prompt ? layout::kTileThreads : layout::kGroupThreads;
  if (prompt) return dispatch;
  assert(bound.rows <= graph::kMaxVerifyRows);
  dispatch.constants.push_back({kRowsConstant, bound.rows});
  return dispatch;
}

}  // namespace

Dispatch with_matrices(std::string name, const BoundStep& bound) {
  Dispatch dispatch;
  dispatch.kernel = std::move(name);
  dispatch.bindings = bindings_of(bound);
  dispatch.constants.push_back({kInputsConstant, bound.matrices[0].matrix->cols});
  dispatch.constants.push_back({kClippedConstant, clips(bound)});
  // A kernel has all its arguments: what a storage or a step does not need is something else that is there.
  for (int i = 0; i < graph::info_of(bound.step->op).weight_count(graph::WeightUse::matrix); ++i) {
    const BoundMatrix& bound_matrix = bound.matrices[bound.step->weights[i] != graph::kNone ? i : 0];
    const Storage& storage = bound_matrix.matrix->storage;
    const int constant = kStorageConstants + 4 * i, place = kWeightAt + 3 * i;
    dispatch.constants.push_back({constant, coding_of(storage)});
    dispatch.constants.push_back({constant + 1, std::max<int>(1, storage.group)});
    dispatch.constants.push_back({constant + 2, number_coding(storage.type)});
    dispatch.bindings.push_back({place, bound_matrix.values});
    dispatch.bindings.push_back({place + 1, bound_matrix.scales ? bound_matrix.scales : bound_matrix.values});
    dispatch.bindings.push_back({place + 2, bound_matrix.biases ? bound_matrix.biases : bound_matrix.values});
  }
  return dispatch;
}

Dispatch linear_route(const BoundStep& linear, const BoundStep& route) {
  Dispatch dispatch = linear_product(linear);
  dispatch.kernel = "linear_route";
  dispatch.groups_x += tiles_of(linear.rows, layout::kGroupThreads / 32);
  int place = kWeightAt + 3 * 3;  // behind the matrices
  for (const Slice& slice : {route.params, route.in[0], route.out[0], route.out[1], route.vectors[0]})
    dispatch.bindings.push_back({place++, slice});
  return dispatch;
}

std::vector<Dispatch> product(const BoundStep& bound) {
  switch (bound.step->op) {
    case Op::linear:
    case Op::linear_gelu_mul:
    case Op::linear_silu_mul:
    case Op::linear_gelu_gate:
    case Op::linear_softcap:
    case Op::linear_bias:
    case Op::linear_silu: return {linear_product(bound)};
    case Op::expert_gelu_mul:
    case Op::expert_linear: return {expert_product(bound)};
    default: return {lookup(bound)};
  }
}

}  // namespace lapidary::gpu
