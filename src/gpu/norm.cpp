// Kernels with a threadgroup or a simdgroup for each row.
#include <algorithm>
#include <cassert>

#include "checkpoint/error.hpp"
#include "gpu/step.hpp"

namespace lapidary::gpu {
namespace {

using graph::Op;

// As the shaders name them.
constexpr int kOutputs = 2, kNormWidth = 40, kNormThreads = 41;
constexpr int kMaxHeld = 24;  // elements of a row in one thread

int round_up(int x, int unit) { return (x + unit - 1) / unit * unit; }

// Wide: 8 simdgroups, more only where a row does not fit into their registers.
int norm_threads(int width) {
  const int threads = width <= kMaxHeld * 256 ? std::min(round_up(width, 32), 256) : 1024;
  if (width > kMaxHeld * threads)
    fail(ErrorKind::usage, "gpu", "width of a norm, expected at most " + std::to_string(kMaxHeld * threads) + ", got " +
                                        std::to_string(width));
  return threads;
}

int output_count(const BoundStep& bound) {
  return static_cast<int>(std::ranges::count_if(bound.out, [](const Slice& out) { return static_cast<bool>(out); }));
}

std::vector<Constant> norm_constants(const BoundStep& bound, int threads) {
  return {{kOutputs, output_count(bound)}, {kNormWidth, bound.step->dims->n[0]}, {kNormThreads, threads}};
}

}  // namespace

std::vector<Dispatch> norm(const BoundStep& bound) {
  const graph::Dims& d = *bound.step->dims;
  Dispatch dispatch;
  dispatch.kernel = graph::name_of(bound.step->op);
  dispatch.bindings = bindings_of(bound);
  switch (bound.step->op) {
    case Op::rms_norm:
    case Op::residual_norm:
    case Op::moe_combine:
    case Op::layer_norm:
    case Op::add_norm:
    case Op::glu_conv:
      dispatch.threads = norm_threads(d.n[0]);
      dispatch.constants = norm_constants(bound, dispatch.threads);
      break;
    case Op::rope_angles:
      assert(d.head_dim / 2 <= 1024);
      dispatch.threads = round_up(d.head_dim / 2, 32);
      dispatch.constants = {{kHeadDim, d.head_dim}};
      break;
    case Op::qkv_norm_rope:
    case Op::block_qkv:
      assert(d.head_dim / 2 <= 1024);
      dispatch.groups_x = d.heads + (d.owns_kv ? 2 * d.kv_heads : 0);
      dispatch.threads = round_up(d.head_dim / 2, 32);
      dispatch.constants = {{kHeadDim, d.head_dim}, kv_code_constant(bound), kv_turned_constant(bound)};
      break;
    case Op::route: assert(d.experts_used <= 32); break;
    case Op::top: break;
    default: assert(false && "no norm");
  }
  return {dispatch};
}

}  // namespace lapidary::gpu
