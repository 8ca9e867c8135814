// The experts of a row.
#include <cassert>

#include "cpu/kernels.hpp"
#include "cpu/share.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
void route(int rows, In scores, const float* expert_scale, int experts, int used, OutIds ids, Out weights, Part part) {
  assert(used <= experts);
  for_each_own(rows, part, [&](int r) {
    top(1, {scores[r], 0}, experts, used, {ids[r], 0}, Part{});
    const float* z = scores[r];
    const std::int32_t* picked = ids[r];
    float* weight = weights[r];
    float sum = 0.0f;
    for (int slot = 0; slot < used; ++slot) {
      weight[slot] = numeric::exp(z[picked[slot]] - z[picked[0]]);
      sum += weight[slot];
    }
    for (int slot = 0; slot < used; ++slot) weight[slot] = weight[slot] / sum * expert_scale[picked[slot]];
  });
}

}  // namespace lapidary::cpu
