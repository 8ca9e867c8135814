// round_rows, sample, keep_draft, accept, and what begins a run.
#include <cassert>

#include "gpu/step.hpp"

namespace lapidary::gpu {
namespace {

using graph::Op;

constexpr int kListed = 60;  // function constant of sample.metal

Dispatch one_group(const BoundStep& bound, const char* kernel, int threads) {
  return {.kernel = kernel, .constants = {}, .bindings = bindings_of(bound), .rows_per_group = 0, .threads = threads};
}

Dispatch sample(const BoundStep& bound) {
  return {.kernel = "sample", .constants = {{kListed, static_cast<bool>(bound.in[1])}}, .bindings = bindings_of(bound), .threads = 1024};
}

Dispatch accept(const BoundStep& bound) {
  Dispatch dispatch = one_group(bound, "accept", 256);
  dispatch.rows_per_group = 1;  // one for each session, of which there are no more
  return dispatch;
}

}  // namespace

std::vector<Dispatch> choice(const BoundStep& bound) {
  switch (bound.step->op) {
    case Op::round_rows: return {one_group(bound, "round_rows", 32)};
    case Op::sample: return {sample(bound)};
    case Op::keep_draft: return {one_group(bound, "keep_draft", 32)};
    case Op::accept: return {accept(bound)};
    default: assert(false && "no choice"); return {};
  }
}

Dispatch begin_run(const RunPlaces& from, const RunPlaces& to) {
  return {.kernel = "begin_run",
          .constants = {},
          .bindings = {{0, from.run}, {1, from.rows}, {2, from.masks}, {3, from.biases},
                       {4, to.run}, {5, to.rows}, {6, to.masks}, {7, to.biases}},
          .rows_per_group = 0,
          .threads = 1024};
}

}  // namespace lapidary::gpu
