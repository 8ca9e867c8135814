// The experts of a row.
#include <cassert>
#include <limits>

#include "cpu/kernels.hpp"
#include "cpu/math.hpp"
#include "cpu/share.hpp"

namespace lapidary::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// NaN sorts below every number, so that a pick always exists.
float or_lowest(float value) { return value == value ? value : kMinusInfinity; }

}  // namespace

void route(int rows, In scores, const float* expert_scale, int experts, int used, OutIds ids, Out weights, Part part) {
  assert(used <= experts);
  const Range range = share(rows, part);
  for (int r = range.begin; r < range.end; ++r) {
    const float* z = scores[r];
    std::int32_t* picked = ids[r];
    float* weight = weights[r];
    // By (score descending, id ascending); each pick is the first of those after the one before.
    for (int slot = 0; slot < used; ++slot) {
      int best = -1;
      for (int e = 0; e < experts; ++e) {
        const float score = or_lowest(z[e]);
        if (slot > 0) {
          const float before = or_lowest(z[picked[slot - 1]]);
          if (score > before || (score == before && e <= picked[slot - 1])) continue;
        }
        if (best < 0 || score > or_lowest(z[best])) best = e;
      }
      picked[slot] = best;
    }
    float sum = 0.0f;
    for (int slot = 0; slot < used; ++slot) {
      weight[slot] = exp(z[picked[slot]] - z[picked[0]]);
      sum += weight[slot];
    }
    for (int slot = 0; slot < used; ++slot) weight[slot] = weight[slot] / sum * expert_scale[picked[slot]];
  }
}

}  // namespace lapidary::cpu
