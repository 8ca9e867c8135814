// The ops that only towers have, but for products and norms.
#include <algorithm>
#include <cassert>

#include "checkpoint/error.hpp"
#include "gpu/product.hpp"

namespace lapidary::gpu {
namespace {

using graph::Op;

// As the shaders name them.
constexpr int kPositions = 46;
constexpr int kSeenMax = 128, kHeardMax = 8 * 32;  // elements of a head: attention_all, local_attention

constexpr int kLineThreads = 256;

// A thread for each of `width` elements of a row.
void spread(Dispatch& dispatch, int width) {
  dispatch.threads = std::min(kLineThreads, tiles_of(width, 32) * 32);
  dispatch.groups_x = tiles_of(width, dispatch.threads);
}

void check_head(const graph::Dims& d, int multiple, int most) {
  if (d.head_dim % multiple != 0 || d.head_dim > most)
    fail(ErrorKind::usage, "gpu", "head size of a tower, expected a multiple of " + std::to_string(multiple) + " up to " + std::to_string(most) +
                                      ", got " + std::to_string(d.head_dim));
}

}  // namespace

std::vector<Dispatch> tower(const BoundStep& bound) {
  const graph::Step& step = *bound.step;
  const graph::Dims& d = *step.dims;
  Dispatch dispatch;
  dispatch.kernel = graph::name_of(step.op);
  dispatch.bindings = bindings_of(bound);
  switch (step.op) {
    case Op::scale_shift:
    case Op::pool: spread(dispatch, d.n[0]); break;
    case Op::distance_waves: spread(dispatch, d.k / 2); break;
    case Op::add_positions: {
      const link::Matrix& table = *bound.matrices[0].matrix;
      assert(table.storage.encoding == Encoding::plain);
      dispatch = with_matrices(dispatch.kernel, bound);
      dispatch.constants.push_back({kPositions, table.rows / 2});
      spread(dispatch, d.n[0]);
      break;
    }
    case Op::grid_angles:
    case Op::qkv_grid_rope:
      check_head(d, 4, 2048);
      dispatch.constants = {{kHeadDim, d.head_dim}};
      dispatch.groups_x = step.op == Op::qkv_grid_rope ? 3 * d.heads : 1;
      dispatch.threads = tiles_of(d.head_dim / 2, 32) * 32;
      break;
    case Op::attention_all:
      check_head(d, 8, kSeenMax);
      dispatch.constants = {{kHeadDim, d.head_dim}};
      dispatch.groups_x = d.heads;
      dispatch.rows_per_group = layout::kTileRows;
      dispatch.threads = layout::kTileThreads;
      break;
    case Op::local_attention:
      check_head(d, 1, kHeardMax);
      dispatch.constants = {{kHeadDim, d.head_dim}};
      dispatch.groups_x = d.heads;
      break;
    case Op::conv_norm_relu:
      if (d.channels > 1024)
        fail(ErrorKind::usage, "gpu", "channels, expected at most 1024, got " + std::to_string(d.channels));
      dispatch.groups_x = d.n[0] / d.channels;
      dispatch.threads = tiles_of(d.channels, 32) * 32;
      break;
    default: assert(false && "no op of a tower");
  }
  return {dispatch};
}

}  // namespace lapidary::gpu
