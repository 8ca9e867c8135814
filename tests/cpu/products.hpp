// Calls the kernels of products as the executor does.
#pragma once

#include "cpu/kernel_rows.hpp"
#include "support/product_cases.hpp"

namespace lapidary::test {

inline FloatRows linear(const FloatRows& x, const std::vector<link::Matrix>& weights, int parts) {
  std::vector<const link::Matrix*> pointers;
  int n = 0;
  for (const link::Matrix& weight : weights) {
    pointers.push_back(&weight);
    n += weight.rows;
  }
  const RowBuffer in(x);
  RowBuffer out(count_of(x), n);
  in_parts(parts, [&](cpu::Part part) { cpu::linear(count_of(x), in.in(), pointers, out.out(), part); });
  return out.rows();
}

inline FloatRows linear_gelu_mul(const FloatRows& x, const link::Matrix& gate, const link::Matrix& up, int parts) {
  const RowBuffer in(x);
  RowBuffer out(count_of(x), gate.rows);
  in_parts(parts, [&](cpu::Part part) { cpu::linear_gelu_mul(count_of(x), in.in(), gate, up, out.out(), part); });
  return out.rows();
}

inline FloatRows linear_silu_mul(const FloatRows& x, const link::Matrix& gate, const link::Matrix& up, int parts) {
  const RowBuffer in(x);
  RowBuffer out(count_of(x), gate.rows);
  in_parts(parts, [&](cpu::Part part) { cpu::linear_silu_mul(count_of(x), in.in(), gate, up, out.out(), part); });
  return out.rows();
}

inline FloatRows linear_gelu_gate(const FloatRows& x, const link::Matrix& weight, const FloatRows& factor, int offset,
                                  int parts) {
  const RowBuffer in(x), factors(factor);
  RowBuffer out(count_of(x), weight.rows);
  const cpu::In from{factors.in().data + offset, factors.in().stride};
  in_parts(parts, [&](cpu::Part part) { cpu::linear_gelu_gate(count_of(x), in.in(), weight, from, out.out(), part); });
  return out.rows();
}

inline FloatRows linear_softcap(const FloatRows& x, const link::Matrix& weight, float cap, int parts) {
  const RowBuffer in(x);
  RowBuffer out(count_of(x), weight.rows);
  in_parts(parts, [&](cpu::Part part) { cpu::linear_softcap(count_of(x), in.in(), weight, cap, out.out(), part); });
  return out.rows();
}

inline const ProductKernels kProducts{linear, linear_gelu_mul, linear_gelu_gate, linear_softcap, linear_silu_mul};

}  // namespace lapidary::test
