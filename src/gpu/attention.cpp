#include <algorithm>
#include <cassert>

#include "checkpoint/error.hpp"
#include "gpu/step.hpp"
#include "link/link.hpp"

namespace lapidary::gpu {
namespace {

// As the shaders name them.
constexpr int kKvRanges = 44;
constexpr int kThreads = 256;
constexpr int kKeyNormAt = kWeightAt + 1;  // behind the scratch

// A lane holds this many floats of the heads of its threadgroup at most, once as query and once as result.
constexpr int kMaxRegisters = 32;
// Heads share the reads of K and V as long as that leaves enough threadgroups to keep a GPU busy.
constexpr int kEnoughGroups = 32;

// A lane takes 4 elements of each 128: 1, 2 or 4 times that.
int chunks_of(int head_dim) { return head_dim <= 128 ? 1 : head_dim <= 256 ? 2 : 4; }

int heads_together(const graph::Dims& d, int rows, int ranges) {
  const int sharing = d.heads / d.kv_heads;
  int heads = 4;
  while (heads > 1 && (sharing % heads != 0 || heads * chunks_of(d.head_dim) * 4 > kMaxRegisters ||
                       rows * ranges * d.heads / heads < kEnoughGroups))
    heads /= 2;
  return heads;
}

// Steps whose ranges are split.
bool splits(const BoundStep& bound) {
  return bound.kv_ranges > 1 && bound.step->dims->window == 0 && bound.numeric == NumericClass::round;
}

}  // namespace

std::size_t attention_scratch_bytes(const graph::Dims& d, int rows, int kv_ranges) {
  if (d.window > 0 || kv_ranges == 1) return 0;
  return static_cast<std::size_t>(rows) * d.heads * kv_ranges * (d.head_dim + 4) * sizeof(float);
}

std::size_t attention_scratch_bytes(const link::Program& program) {
  std::size_t bytes = 0;
  for (const graph::Segment& segment : program.graph->segments)
    for (const graph::Step& step : segment.steps) {
      if (step.op != graph::Op::attention) continue;
      bytes = std::max(bytes, attention_scratch_bytes(*step.dims, program.plan.verify_rows, kv_ranges(program.plan.context_tokens)));
    }
  return bytes;
}

std::vector<Dispatch> attention(const BoundStep& bound) {
  const graph::Dims& d = *bound.step->dims;
  if (d.head_dim % 4 != 0 || d.head_dim > 512)
    fail(ErrorKind::usage, "gpu", "head size, expected a multiple of 4 up to 512, got " + std::to_string(d.head_dim));
  const int ranges = splits(bound) ? bound.kv_ranges : 1;
  const int heads = heads_together(d, bound.rows, ranges);
  std::vector<Binding> bindings = bindings_of(bound);
  bindings.push_back({kKeyNormAt, bound.key_norm ? bound.key_norm : bound.out[0]});
  const std::vector<Constant> constants = {{kHeadDim, d.head_dim}, kv_code_constant(bound), {kKvRanges, ranges}, kv_turned_constant(bound)};

  std::vector<Dispatch> dispatches;
  dispatches.push_back({.kernel = "attention_" + std::to_string(heads) + "x" + std::to_string(chunks_of(d.head_dim)),
                        .constants = constants,
                        .bindings = bindings,
                        .groups_x = d.heads / heads,
                        .groups_z = ranges,
                        .threads = kThreads});
  if (ranges > 1)
    dispatches.push_back({.kernel = "attention_merge",
                          .constants = constants,
                          .bindings = bindings,
                          .groups_x = d.heads,
                          .threads = std::min(kThreads, (d.head_dim + 31) / 32 * 32)});
  return dispatches;
}

}  // namespace lapidary::gpu
