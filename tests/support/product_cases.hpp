// linear, linear_gelu_mul, linear_silu_mul, linear_gelu_gate and linear_softcap of a backend, and the same with experts: checks of one
// matrix or a few. Which storages and sizes they are made for is each backend's own.
#pragma once

#include <array>

#include "reference/linear.hpp"
#include "reference/moe.hpp"
#include "support/linear_tolerance.hpp"
#include "support/random_weights.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

struct ProductKernels {
  using Matrix = link::Matrix;
  std::function<FloatRows(const FloatRows& x, const std::vector<Matrix>& weights, int parts)> linear;
  std::function<FloatRows(const FloatRows& x, const Matrix& gate, const Matrix& up, int parts)> linear_gelu_mul;
  // The factors begin at element `offset` of each row.
  std::function<FloatRows(const FloatRows& x, const Matrix& weight, const FloatRows& factors, int offset, int parts)>
      linear_gelu_gate;
  std::function<FloatRows(const FloatRows& x, const Matrix& weight, float cap, int parts)> linear_softcap;
  // Only rounds have it.
  std::function<FloatRows(const FloatRows& x, const Matrix& gate, const Matrix& up, int parts)> linear_silu_mul = nullptr;
};

// What most checkpoints use.
inline std::vector<Storage> main_storages() {
  return {{Encoding::plain, DType::bf16, 16, 0},
          {Encoding::affine, DType::bf16, 4, 64},
          {Encoding::affine, DType::bf16, 8, 64},
          {Encoding::mxfp4, DType::u8, 4, 32}};
}
inline const Storage kAffine4{Encoding::affine, DType::bf16, 4, 64}, kAffine8{Encoding::affine, DType::bf16, 8, 64},
    kPlain{Encoding::plain, DType::bf16, 16, 0};

inline void append(std::vector<float>& to, const std::vector<float>& values) {
  to.insert(to.end(), values.begin(), values.end());
}

inline void expect_linear(Random& random, const ProductKernels& kernels, const Storage& storage, int k, int n, int rows) {
  const RandomMatrix random_matrix(random, storage, n, k);
  const link::Matrix matrix = random_matrix.view();
  const reference::Table w = reference::dequantise(matrix), magnitude = reference::magnitudes(matrix);
  const FloatRows x = random_rows(random, rows, k), y = kernels.linear(x, {matrix}, 1);
  for (int r = 0; r < rows; ++r)
    boost::ut::expect(worst_error(y[r], reference::linear(w, doubles(x[r])), product_errors(magnitude, x[r])) <= 1.0)
        << "K =" << k << "N =" << n;
}

inline void expect_linear_alone(Random& random, const ProductKernels& kernels, const Storage& storage, int k, int n,
                                const Company& company) {
  const RandomMatrix random_matrix(random, storage, n, k);
  const link::Matrix matrix = random_matrix.view();
  const FloatRows x = random_rows(random, company.rows, k);
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    return kernels.linear(gather(x, numbers), {matrix}, parts);
  });
}

// linear_gelu_mul, linear_gelu_gate and linear_softcap.
inline void expect_functions(Random& random, const ProductKernels& kernels, const Storage& storage, int k, int n,
                             int offset) {
  using boost::ut::expect;
  const int rows = 2;
  const RandomMatrix random_gate(random, storage, n, k), random_up(random, storage, n, k);
  const link::Matrix gate = random_gate.view(), up = random_up.view();
  const reference::Table gate_values = reference::dequantise(gate), up_values = reference::dequantise(up);
  const reference::Table gate_magnitude = reference::magnitudes(gate), up_magnitude = reference::magnitudes(up);
  const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), factor = random_rows(random, rows, n + offset);
  const FloatRows product = kernels.linear_gelu_mul(x, gate, up, 1);
  const FloatRows gated = kernels.linear_gelu_gate(x, gate, factor, offset, 1);
  const FloatRows capped = kernels.linear_softcap(x, gate, 30.0f, 1);
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

inline void expect_functions_alone(Random& random, const ProductKernels& kernels, const Storage& gate_storage,
                                   const Storage& up_storage, int k, int n, const Company& company) {
  const RandomMatrix random_gate(random, gate_storage, n, k), random_up(random, up_storage, n, k);
  const link::Matrix gate = random_gate.view(), up = random_up.view();
  const FloatRows x = random_rows(random, company.rows, k, -0.2, 0.2), factor = random_rows(random, company.rows, n);
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    return kernels.linear_gelu_mul(gather(x, numbers), gate, up, parts);
  });
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    return kernels.linear_gelu_gate(gather(x, numbers), gate, gather(factor, numbers), 0, parts);
  });
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    return kernels.linear_softcap(gather(x, numbers), gate, 30.0f, parts);
  });
}

inline void expect_silu_mul(Random& random, const ProductKernels& kernels, const Storage& storage, int k, int n) {
  const int rows = 2;
  const RandomMatrix random_gate(random, storage, n, k), random_up(random, storage, n, k);
  const link::Matrix gate = random_gate.view(), up = random_up.view();
  const reference::Table gate_values = reference::dequantise(gate), up_values = reference::dequantise(up);
  const reference::Table gate_magnitude = reference::magnitudes(gate), up_magnitude = reference::magnitudes(up);
  const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), y = kernels.linear_silu_mul(x, gate, up, 1);
  for (int r = 0; r < rows; ++r) {
    const auto input = doubles(x[r]);
    const auto errors = gelu_mul_errors(reference::linear(gate_values, input), product_errors(gate_magnitude, x[r]),
                                        reference::linear(up_values, input), product_errors(up_magnitude, x[r]));
    boost::ut::expect(worst_error(y[r], reference::linear_silu_mul(gate_values, up_values, input), errors) <= 1.0)
        << "linear_silu_mul, K =" << k;
  }
}

inline void expect_silu_mul_alone(Random& random, const ProductKernels& kernels, const Storage& gate_storage, const Storage& up_storage,
                                  int k, int n, const Company& company) {
  const RandomMatrix random_gate(random, gate_storage, n, k), random_up(random, up_storage, n, k);
  const link::Matrix gate = random_gate.view(), up = random_up.view();
  const FloatRows x = random_rows(random, company.rows, k, -0.2, 0.2);
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    return kernels.linear_silu_mul(gather(x, numbers), gate, up, parts);
  });
}

// Two and three matrices in one product, of these heights, equal the products of each.
inline void expect_several_weights(Random& random, const ProductKernels& kernels, int k, const std::array<int, 3>& n,
                                   const std::vector<int>& all_parts) {
  const RandomMatrix first(random, kAffine4, n[0], k), second(random, {Encoding::affine, DType::f16, 8, 32}, n[1], k);
  const RandomMatrix third(random, kPlain, n[2], k);
  const link::Matrix a = first.view(), b = second.view(), c = third.view();
  const FloatRows x = random_rows(random, 6, k);
  const FloatRows ya = kernels.linear(x, {a}, 1), yb = kernels.linear(x, {b}, 1), yc = kernels.linear(x, {c}, 1);
  for (const int parts : all_parts) {
    const FloatRows two = kernels.linear(x, {a, b}, parts), three = kernels.linear(x, {a, b, c}, parts);
    for (std::size_t r = 0; r < x.size(); ++r) {
      std::vector<float> expected = ya[r];
      append(expected, yb[r]);
      boost::ut::expect(same_bits(two[r], expected)) << "two weights in" << parts << "parts";
      append(expected, yc[r]);
      boost::ut::expect(same_bits(three[r], expected)) << "three weights in" << parts << "parts";
    }
  }
}

inline void expect_no_cap_is_linear(Random& random, const ProductKernels& kernels) {
  const RandomMatrix random_matrix(random, kPlain, 33, 256);
  const link::Matrix matrix = random_matrix.view();
  const FloatRows x = random_rows(random, 4, 256);
  const FloatRows y = kernels.linear(x, {matrix}, 1), capped = kernels.linear_softcap(x, matrix, 0.0f, 1);
  for (std::size_t r = 0; r < x.size(); ++r) boost::ut::expect(same_bits(capped[r], y[r]));
}

// Arguments for functions: from -20 to 20 at these steps, and beyond.
inline std::vector<float> sweep(int steps_in_one) {
  std::vector<float> all = {0.0f, 1e-38f, -1e-38f, 1e-20f, -1e-20f, 1e-10f, -1e-6f, 1e-3f, -1e-3f};
  for (int i = -20 * steps_in_one; i <= 20 * steps_in_one; ++i)
    all.push_back(static_cast<float>(i) / static_cast<float>(steps_in_one));
  for (const float large : {25.0f, 50.0f, 90.0f, 300.0f, 1e4f, 1e8f, 1e13f, 1e20f, 3e38f}) {
    all.push_back(large);
    all.push_back(-large);
  }
  return all;
}

inline void expect_gelu(const std::vector<float>& x, const std::vector<float>& y) {
  boost::ut::expect(boost::ut::eq(y.size(), x.size()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double argument = x[i], expected = reference::gelu(argument);
    // x/2 times a sum of two numbers near one: a few roundings of |x|. Beyond 10 it is x or nothing.
    const double allowed = std::abs(argument) > 10 ? 1e-30 : kFunctionError * std::abs(argument) + 1e-44;
    if (!(std::abs(y[i] - expected) <= allowed))
      boost::ut::expect(false) << "gelu(" << argument << ") =" << y[i] << "expected" << expected;
  }
}

inline void expect_silu(const std::vector<float>& x, const std::vector<float>& y) {
  boost::ut::expect(boost::ut::eq(y.size(), x.size()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double argument = x[i], expected = reference::silu(argument);
    // An exponential, a sum, a quotient and a product: a few roundings of the result. Below what float32 has there may be nothing.
    const double allowed = 2 * kFunctionError * std::abs(expected) + 1e-36;
    if (!(std::abs(y[i] - expected) <= allowed))
      boost::ut::expect(false) << "silu(" << argument << ") =" << y[i] << "expected" << expected;
  }
}

inline void expect_softcap(const std::vector<float>& x, float cap, const std::vector<float>& y) {
  boost::ut::expect(boost::ut::eq(y.size(), x.size()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double expected = reference::softcap(x[i], cap);
    if (!(std::abs(y[i] - expected) <= kFunctionError * cap) || std::abs(y[i]) > cap)
      boost::ut::expect(false) << "softcap(" << x[i] << ") =" << y[i] << "expected" << expected;
  }
}

struct ExpertKernels {
  std::function<FloatRows(const FloatRows& x, const IdRows& ids, const link::Matrix& gate, const link::Matrix& up,
                          int parts)> expert_gelu_mul;
  std::function<FloatRows(const FloatRows& x, const IdRows& ids, const link::Matrix& weight, int parts)> expert_linear;
  const ProductKernels& products;  // what they must equal to the bit
};

// One expert as a matrix of its own.
inline link::Matrix expert_of(link::Matrix matrix, int expert) {
  matrix.values += expert * matrix.expert_bytes;
  if (matrix.scales) matrix.scales += expert * matrix.scale_expert_bytes;
  if (matrix.biases) matrix.biases += expert * matrix.scale_expert_bytes;
  matrix.experts = 0;
  return matrix;
}

// One row that picks `ids`: near the definition, and to the bit what linear_gelu_mul makes of the experts.
inline void expect_expert_gelu_mul(Random& random, const ExpertKernels& kernels, const Storage& gate_storage,
                                   const Storage& up_storage, int k, int n, int experts, const Ids& ids) {
  const RandomMatrix random_gate(random, gate_storage, n, k, experts), random_up(random, up_storage, n, k, experts);
  const link::Matrix gate = random_gate.view(), up = random_up.view();
  const FloatRows x = random_rows(random, 1, k, -0.2, 0.2);
  const auto got = kernels.expert_gelu_mul(x, {ids}, gate, up, 1).front();
  std::vector<reference::Table> gates(experts), ups(experts);
  std::vector<double> allowed;
  std::vector<float> by_matrix;
  for (const std::int32_t id : ids) {
    gates[id] = reference::dequantise(gate, id);
    ups[id] = reference::dequantise(up, id);
    const auto errors = gelu_mul_errors(
        reference::linear(gates[id], doubles(x[0])), product_errors(reference::magnitudes(gate, id), x[0]),
        reference::linear(ups[id], doubles(x[0])), product_errors(reference::magnitudes(up, id), x[0]));
    allowed.insert(allowed.end(), errors.begin(), errors.end());
    append(by_matrix, kernels.products.linear_gelu_mul(x, expert_of(gate, id), expert_of(up, id), 1).front());
  }
  const auto expected = reference::expert_gelu_mul(gates, ups, doubles(x[0]), ids);
  boost::ut::expect(worst_error(got, expected, allowed) <= 1.0) << "K =" << k;
  boost::ut::expect(same_bits(got, by_matrix)) << "K =" << k;
}

// Likewise of expert_linear.
inline void expect_expert_linear(Random& random, const ExpertKernels& kernels, const Storage& storage, int k, int n,
                                 int experts, const Ids& ids) {
  const RandomMatrix random_weight(random, storage, n, k, experts);
  const link::Matrix weight = random_weight.view();
  const int used = count_of(ids);
  const FloatRows x = random_rows(random, 1, k * used);
  const auto got = kernels.expert_linear(x, {ids}, weight, 1).front();
  std::vector<reference::Table> tables(experts);
  std::vector<double> allowed;
  std::vector<float> by_matrix;
  for (int slot = 0; slot < used; ++slot) {
    const std::vector<float> input(x[0].begin() + slot * k, x[0].begin() + (slot + 1) * k);
    tables[ids[slot]] = reference::dequantise(weight, ids[slot]);
    const auto errors = product_errors(reference::magnitudes(weight, ids[slot]), input);
    allowed.insert(allowed.end(), errors.begin(), errors.end());
    append(by_matrix, kernels.products.linear({input}, {expert_of(weight, ids[slot])}, 1).front());
  }
  const auto expected = reference::expert_linear(tables, doubles(x[0]), ids);
  boost::ut::expect(worst_error(got, expected, allowed) <= 1.0) << "K =" << k;
  boost::ut::expect(same_bits(got, by_matrix)) << "K =" << k;
}

// Half of the rows agree on their experts, the others do not.
inline void expect_experts_alone(Random& random, const ExpertKernels& kernels, const Storage& storage, int k, int n,
                                 const Company& company) {
  const int experts = 7, used = 3;
  const RandomMatrix random_gate(random, storage, n, k, experts), random_up(random, storage, n, k, experts);
  const link::Matrix gate = random_gate.view(), up = random_up.view();
  const FloatRows x = random_rows(random, company.rows, k, -0.2, 0.2), many = random_rows(random, company.rows, k * used);
  IdRows ids;
  for (int r = 0; r < company.rows; ++r) ids.push_back(r % 2 ? Ids{4, 2, 6} : random_ids(random, used, experts));
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    return kernels.expert_gelu_mul(gather(x, numbers), gather(ids, numbers), gate, up, parts);
  });
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    return kernels.expert_linear(gather(many, numbers), gather(ids, numbers), gate, parts);
  });
}

}  // namespace lapidary::test
