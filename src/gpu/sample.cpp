// round_rows, sample, keep_draft, keep_block, accept, keep_tap, and what begins a run.
#include <cassert>

#include "gpu/step.hpp"

namespace lapidary::gpu {
namespace {

using graph::Op;

constexpr int kListed = 60;  // function constant of sample.metal

Dispatch one_group(const BoundStep& bound, const char* kernel, int threads) {
  return {.kernel = kernel, .constants = {}, .bindings = bindings_of(bound), .rows_per_group = 0, .threads = threads};
}

Dispatch group_for_each_row(const BoundStep& bound, const char* kernel) {
  return {.kernel = kernel, .constants = {}, .bindings = bindings_of(bound), .threads = 256};
}

std::vector<Dispatch> round_rows(const BoundStep& bound) {
  switch (bound.step->rows) {
    case graph::RowSet::pending: return {one_group(bound, "pending_rows", 64), group_for_each_row(bound, "fetch_pending")};
    case graph::RowSet::block: return {one_group(bound, "block_rows", 32)};
    default: return {one_group(bound, "round_rows", 32)};
  }
}

Dispatch sample(const BoundStep& bound) {
  return {.kernel = "sample", .constants = {{kListed, static_cast<bool>(bound.in[1])}}, .bindings = bindings_of(bound), .threads = 1024};
}

}  // namespace

std::vector<Dispatch> choice(const BoundStep& bound) {
  switch (bound.step->op) {
    case Op::round_rows: return round_rows(bound);
    case Op::sample: return {sample(bound)};
    case Op::keep_draft: return {one_group(bound, "keep_draft", 32)};
    case Op::keep_block: return {one_group(bound, "keep_block", 32)};
    case Op::accept: return {group_for_each_row(bound, "accept")};  // one for each session, of which there are no more
    case Op::keep_tap: return {group_for_each_row(bound, "keep_tap")};
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
