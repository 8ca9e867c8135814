// What the tests of products share: the ops of one step on the device, and rows that must not know of each other.
#pragma once

#include "cpu/linear_tolerance.hpp"
#include "metal/stage.hpp"
#include "reference/linear.hpp"
#include "support/random_weights.hpp"

namespace lapidary::test {

using metal::NumericClass;

// What most checkpoints use.
inline std::vector<Storage> main_storages() {
  return {{Encoding::plain, DType::bf16, 16, 0},
          {Encoding::affine, DType::bf16, 4, 64},
          {Encoding::affine, DType::bf16, 8, 64},
          {Encoding::mxfp4, DType::u8, 4, 32}};
}

inline int count_of(const FloatRows& rows) { return static_cast<int>(rows.size()); }

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

inline void expect_linear_near_definition(Random& random, const Storage& storage, int k, int n, int rows,
                                          NumericClass numeric) {
  const RandomMatrix random_matrix(random, storage, n, k);
  const link::Matrix matrix = random_matrix.view();
  const reference::Table w = reference::dequantise(matrix), magnitude = reference::magnitudes(matrix);
  const FloatRows x = random_rows(random, rows, k), y = linear(x, {matrix}, numeric);
  double worst = 0.0;
  for (int r = 0; r < rows; ++r)
    worst = std::max(worst, worst_error(y[r], reference::linear(w, doubles(x[r])), product_errors(magnitude, x[r])));
  boost::ut::expect(worst <= 1.0) << "K =" << k << "error" << worst;
}

// linear_gelu_mul, linear_gelu_gate and linear_softcap of one storage.
inline void expect_epilogues_near_definitions(Random& random, const Storage& storage, int k, int n, NumericClass numeric) {
  using boost::ut::expect;
  const int rows = 2, offset = 5;
  const RandomMatrix random_gate(random, storage, n, k), random_up(random, storage, n, k);
  const link::Matrix gate = random_gate.view(), up = random_up.view();
  const reference::Table gate_values = reference::dequantise(gate), up_values = reference::dequantise(up);
  const reference::Table gate_magnitude = reference::magnitudes(gate), up_magnitude = reference::magnitudes(up);
  const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), factor = random_rows(random, rows, n + offset);
  const FloatRows product = linear_gelu_mul(x, gate, up, numeric);
  const FloatRows gated = linear_gelu_gate(x, gate, factor, offset, numeric);
  const FloatRows capped = linear_softcap(x, gate, 30.0f, numeric);
  for (int r = 0; r < rows; ++r) {
    const auto input = doubles(x[r]), factors = std::vector<double>(factor[r].begin() + offset, factor[r].end());
    const auto g = reference::linear(gate_values, input), u = reference::linear(up_values, input);
    const auto g_error = product_errors(gate_magnitude, x[r]), u_error = product_errors(up_magnitude, x[r]);
    expect(worst_error(product[r], reference::linear_gelu_mul(gate_values, up_values, input),
                       gelu_mul_errors(g, g_error, u, u_error)) <= 1.0)
        << "linear_gelu_mul, K =" << k;
    expect(worst_error(gated[r], reference::linear_gelu_gate(gate_values, input, factors),
                       gelu_mul_errors(g, g_error, factors, std::vector<double>(n, 0.0))) <= 1.0)
        << "linear_gelu_gate, K =" << k;
    expect(worst_error(capped[r], reference::linear_softcap(gate_values, input, 30.0),
                       softcap_errors(g_error, 30.0)) <= 1.0)
        << "linear_softcap, K =" << k;
  }
}

// Computes the rows with these numbers in one call.
using ComputeRows = std::function<FloatRows(const std::vector<int>& numbers)>;

// Every row equals the row computed alone, in calls of these widths, at random places among random others.
inline void expect_rows_alone(Random& random, int row_count, const std::vector<int>& widths, const ComputeRows& compute) {
  FloatRows alone(row_count);
  for (const int width : widths) {
    const std::vector<int> numbers = random.pick(width, row_count);
    const FloatRows together = compute(numbers);
    int different = 0;
    for (int r = 0; r < width; ++r) {
      std::vector<float>& expected = alone[numbers[r]];
      if (expected.empty()) expected = compute({numbers[r]}).front();
      different += !same_bits(together[r], expected);
    }
    boost::ut::expect(boost::ut::eq(different, 0)) << "rows differ at width" << width;
  }
}

inline const std::vector<int> kRoundWidths = {8, 7, 6, 5, 4, 3, 2, 1};

}  // namespace lapidary::test
