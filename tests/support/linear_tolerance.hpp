// How far a product in float32 may lie from the real one.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "reference/dequantise.hpp"

namespace lapidary::test {

// Relative to sum |w||x|. A float32 rounding is 6e-8 of its result; partial sums over lanes are much smaller than the
// whole sum of magnitudes, so that all of them together stay within a few of those, however many there are.
inline constexpr double kProductError = 2.5e-7;

// Relative to the largest number inside gelu, softcap and exp: a few roundings.
inline constexpr double kFunctionError = 2.5e-7;

// magnitude: [n][k], x: [k]; returns [n]
inline std::vector<double> product_errors(const reference::Table& magnitude, const std::vector<float>& x) {
  std::vector<double> errors;
  for (const reference::Vector& row : magnitude) {
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += row[i] * std::abs(x[i]);
    errors.push_back(kProductError * sum);
  }
  return errors;
}

// Of gelu(gate) * up, or silu(gate) * up, given the errors of both: the slopes are below 1.13.
inline std::vector<double> gelu_mul_errors(const std::vector<double>& gate, const std::vector<double>& gate_error,
                                           const std::vector<double>& up, const std::vector<double>& up_error) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < gate.size(); ++i)
    errors.push_back((1.13 * gate_error[i] + kFunctionError * std::abs(gate[i])) * (std::abs(up[i]) + up_error[i]) +
                     std::abs(gate[i]) * up_error[i]);
  return errors;
}

// Of cap * tanh(x / cap), given the errors of x.
inline std::vector<double> softcap_errors(std::vector<double> x_error, double cap) {
  for (double& error : x_error) error += kFunctionError * cap;
  return x_error;
}

}  // namespace lapidary::test
