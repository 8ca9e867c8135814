// The products of a step on the device.
#pragma once

#include "metal/stage.hpp"
#include "support/product_cases.hpp"

namespace lapidary::test {

using metal::NumericClass;

inline FloatRows linear(const FloatRows& x, const std::vector<link::Matrix>& weights, NumericClass numeric) {
  graph::Dims dims{.k = weights[0].cols};
  int n = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) n += dims.n[i] = weights[i].rows;
  Stage stage(graph::Op::linear, dims, count_of(x), numeric);
  stage.in(0, x);
  stage.out(0, n);
  for (std::size_t i = 0; i < weights.size(); ++i) stage.matrix(static_cast<int>(i), weights[i]);
  stage.play();
  return stage.floats(0);
}

inline FloatRows linear_gelu_mul(const FloatRows& x, const link::Matrix& gate, const link::Matrix& up,
                                 NumericClass numeric) {
  Stage stage(graph::Op::linear_gelu_mul, {.k = gate.cols, .n = {gate.rows}}, count_of(x), numeric);
  stage.in(0, x);
  stage.out(0, gate.rows);
  stage.matrix(0, gate);
  stage.matrix(1, up);
  stage.play();
  return stage.floats(0);
}

inline FloatRows linear_silu_mul(const FloatRows& x, const link::Matrix& gate, const link::Matrix& up) {
  Stage stage(graph::Op::linear_silu_mul, {.k = gate.cols, .n = {gate.rows}}, count_of(x));
  stage.in(0, x);
  stage.out(0, gate.rows);
  stage.matrix(0, gate);
  stage.matrix(1, up);
  stage.play();
  return stage.floats(0);
}

// The factors begin at element `offset` of each row.
inline FloatRows linear_gelu_gate(const FloatRows& x, const link::Matrix& weight, const FloatRows& factors, int offset,
                                  NumericClass numeric) {
  Stage stage(graph::Op::linear_gelu_gate, {.k = weight.cols, .n = {weight.rows}, .offset = offset}, count_of(x), numeric);
  stage.in(0, x);
  stage.in(1, factors);
  stage.out(0, weight.rows);
  stage.matrix(0, weight);
  stage.play();
  return stage.floats(0);
}

inline FloatRows linear_softcap(const FloatRows& x, const link::Matrix& weight, float cap, NumericClass numeric) {
  Stage stage(graph::Op::linear_softcap, {.k = weight.cols, .n = {weight.rows}, .scale = cap}, count_of(x), numeric);
  stage.in(0, x);
  stage.out(0, weight.rows);
  stage.matrix(0, weight);
  stage.play();
  return stage.floats(0);
}

// Those of a round or of a prompt.
inline ProductKernels products_of(NumericClass numeric) {
  using Matrix = link::Matrix;
  return {[=](const FloatRows& x, const std::vector<Matrix>& weights, int) { return linear(x, weights, numeric); },
          [=](const FloatRows& x, const Matrix& gate, const Matrix& up, int) {
            return linear_gelu_mul(x, gate, up, numeric);
          },
          [=](const FloatRows& x, const Matrix& weight, const FloatRows& factors, int offset, int) {
            return linear_gelu_gate(x, weight, factors, offset, numeric);
          },
          [=](const FloatRows& x, const Matrix& weight, float cap, int) {
            return linear_softcap(x, weight, cap, numeric);
          },
          [](const FloatRows& x, const Matrix& gate, const Matrix& up, int) { return linear_silu_mul(x, gate, up); }};
}

}  // namespace lapidary::test
