// linear, linear_gelu_mul, linear_silu_mul, linear_gelu_gate, linear_softcap.
#pragma once

#include <cmath>
#include <numbers>

#include "reference/dequantise.hpp"

namespace lapidary::reference {

inline double dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }

inline double softcap(double x, double cap) { return cap == 0.0 ? x : cap * std::tanh(x / cap); }

// w: [n][k], x: [k]
inline Vector linear(const Table& w, const Vector& x) {
  Vector y;
  for (const Vector& row : w) y.push_back(dot(row, x));
  return y;
}

// gate, up: [n][k], x: [k]
inline Vector linear_gelu_mul(const Table& gate, const Table& up, const Vector& x) {
  Vector y;
  for (std::size_t n = 0; n < gate.size(); ++n) y.push_back(gelu(dot(gate[n], x)) * dot(up[n], x));
  return y;
}

// gate, up: [n][k], x: [k]
inline Vector linear_silu_mul(const Table& gate, const Table& up, const Vector& x) {
  Vector y;
  for (std::size_t n = 0; n < gate.size(); ++n) y.push_back(silu(dot(gate[n], x)) * dot(up[n], x));
  return y;
}

// w: [n][k], x: [k], factor: [n]
inline Vector linear_gelu_gate(const Table& w, const Vector& x, const Vector& factor) {
  Vector y;
  for (std::size_t n = 0; n < w.size(); ++n) y.push_back(gelu(dot(w[n], x)) * factor[n]);
  return y;
}

// w: [n][k], x: [k]
inline Vector linear_softcap(const Table& w, const Vector& x, double cap) {
  Vector y;
  for (const Vector& row : w) y.push_back(softcap(dot(row, x), cap));
  return y;
}

}  // namespace lapidary::reference
