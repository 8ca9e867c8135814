// rms_norm, residual_norm.
#pragma once

#include <cmath>

#include "reference/dequantise.hpp"

namespace lapidary::reference {

inline Vector rms(Vector x, double epsilon) {
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  for (double& value : x) value *= factor;
  return x;
}

// x, weight: [n]
inline Vector rms_norm(const Vector& x, const Vector& weight, double epsilon) {
  Vector y = rms(x, epsilon);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= weight[i];
  return y;
}

// The new residual stream: (h + norm(y; post_norm) * weight) * scalar. h, y, post_norm: [n]
inline Vector residual(Vector h, const Vector& y, const Vector& post_norm, double scalar, double epsilon, double weight = 1.0) {
  const Vector update = rms_norm(y, post_norm, epsilon);
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = (h[i] + update[i] * weight) * scalar;
  return h;
}

}  // namespace lapidary::reference
