// A row is the work of one thread from end to end.
#include "cpu/norm.hpp"

#include <algorithm>
#include <cassert>

#include "cpu/kernels.hpp"
#include "cpu/share.hpp"
#include "graph/shape.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

// out = x * factor * weight, or without weight; x, weight, out: [n]
void scale_by(const float* x, float factor, const float* weight, int n, float* out) {
  if (!weight) {
    for (int i = 0; i < n; ++i) out[i] = x[i] * factor;
    return;
  }
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

}  // namespace

void rms_norm(int rows, In x, const float* weight, int n, float epsilon, Out out, Part part) {
  for_each_own(rows, part, [&](int r) { scale_by(x[r], inverse_rms(x[r], n, epsilon), weight, n, out[r]); });
}

void residual_norm(int rows, Out h, In y, const float* post_norm, const float* scalar, int n, float epsilon,
                   std::span<const NormOutput> outputs, Part part, float update_weight) {
  const float layer_factor = scalar ? *scalar : 1.0f;
  for_each_own(rows, part, [&](int r) {
    float* residual = h[r];
    const float* update = y[r];
    const float update_factor = inverse_rms(update, n, epsilon);
    for (int i = 0; i < n; ++i) residual[i] = (residual[i] + update[i] * update_factor * post_norm[i] * update_weight) * layer_factor;
    if (outputs.empty()) return;
    const float factor = inverse_rms(residual, n, epsilon);
    for (const NormOutput& output : outputs) {
      float* out = output.out[r];
      scale_by(residual, factor, output.weight, n, out);
      if (output.factor == 1.0f) continue;
      for (int i = 0; i < n; ++i) out[i] *= output.factor;
    }
  });
}

void moe_combine(int rows, Out h, In dense, In experts, In weights, int used, const MoeNorms& norms, int n, float epsilon,
                 Out next, Part part) {
  assert(n <= graph::kMaxHidden);
  const float layer_factor = norms.scalar ? *norms.scalar : 1.0f;
  for_each_own(rows, part, [&](int r) {
    float* residual = h[r];
    float mixed[graph::kMaxHidden];  // the mixture, then norm(dense; w0) + norm(mixture; w1)
    std::fill_n(mixed, n, 0.0f);
    for (int slot = 0; slot < used; ++slot) {
      const float weight = weights[r][slot];
      const float* expert = experts[r] + static_cast<std::size_t>(slot) * n;
      for (int i = 0; i < n; ++i) mixed[i] = numeric::fused(weight, expert[i], mixed[i]);
    }
    const float mixed_factor = inverse_rms(mixed, n, epsilon), dense_factor = inverse_rms(dense[r], n, epsilon);
    for (int i = 0; i < n; ++i)
      mixed[i] = dense[r][i] * dense_factor * norms.dense[i] + mixed[i] * mixed_factor * norms.experts[i];
    const float sum_factor = inverse_rms(mixed, n, epsilon);
    for (int i = 0; i < n; ++i) residual[i] = (residual[i] + mixed[i] * sum_factor * norms.sum[i]) * layer_factor;
    if (norms.next) scale_by(residual, inverse_rms(residual, n, epsilon), norms.next, n, next[r]);
  });
}

void keep_tap(int rows, In x, int n, int offset, Out out, Part part) {
  for_each_own(rows, part, [&](int r) { std::copy_n(x[r], n, out[r] + offset); });
}

}  // namespace lapidary::cpu
