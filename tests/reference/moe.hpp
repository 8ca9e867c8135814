// route, expert_gelu_mul, expert_linear, moe_combine.
#pragma once

#include <cmath>
#include <cstdint>

#include "reference/linear.hpp"
#include "reference/norm.hpp"

namespace lapidary::reference {

struct Routed {
  std::vector<std::int32_t> ids;  // [used], by descending score
  Vector weights;  // [used]
};

// scores, expert_scale: [experts]
inline Routed route(const Vector& scores, const Vector& expert_scale, int used) {
  Routed routed;
  std::vector<bool> taken(scores.size(), false);
  for (int slot = 0; slot < used; ++slot) {
    std::int32_t best = -1;
    for (std::size_t e = 0; e < scores.size(); ++e)
      if (!taken[e] && (best < 0 || scores[e] > scores[best])) best = static_cast<std::int32_t>(e);
    taken[best] = true;
    routed.ids.push_back(best);
  }
  double sum = 0.0;
  for (const std::int32_t id : routed.ids) sum += std::exp(scores[id] - scores[routed.ids.front()]);
  for (const std::int32_t id : routed.ids)
    routed.weights.push_back(std::exp(scores[id] - scores[routed.ids.front()]) / sum * expert_scale[id]);
  return routed;
}

// gate, up: [experts][n][k], x: [k]; returns [used * n]
inline Vector expert_gelu_mul(const std::vector<Table>& gate, const std::vector<Table>& up, const Vector& x,
                              const std::vector<std::int32_t>& ids) {
  Vector out;
  for (const std::int32_t id : ids)
    for (const double value : linear_gelu_mul(gate[id], up[id], x)) out.push_back(value);
  return out;
}

// w: [experts][n][k], x: [used * k]; returns [used * n]
inline Vector expert_linear(const std::vector<Table>& w, const Vector& x, const std::vector<std::int32_t>& ids) {
  Vector out;
  const std::size_t k = x.size() / ids.size();
  for (std::size_t slot = 0; slot < ids.size(); ++slot) {
    const Vector input(x.begin() + slot * k, x.begin() + (slot + 1) * k);
    for (const double value : linear(w[ids[slot]], input)) out.push_back(value);
  }
  return out;
}

// Norm weights of moe_combine: [n] each.
struct MoeNorms {
  Vector dense, experts, sum;
  double scalar = 1.0;
};

// The new residual stream. h, dense: [n], experts: [used * n], weights: [used]
inline Vector moe_combine(Vector h, const Vector& dense, const Vector& experts, const Vector& weights,
                          const MoeNorms& norms, double epsilon) {
  Vector mixed(h.size(), 0.0);
  for (std::size_t slot = 0; slot < weights.size(); ++slot)
    for (std::size_t i = 0; i < h.size(); ++i) mixed[i] += weights[slot] * experts[slot * h.size() + i];

  Vector both = rms_norm(dense, norms.dense, epsilon);
  const Vector second = rms_norm(mixed, norms.experts, epsilon);
  for (std::size_t i = 0; i < h.size(); ++i) both[i] += second[i];
  return residual(std::move(h), both, norms.sum, norms.scalar, epsilon);
}

}  // namespace lapidary::reference
