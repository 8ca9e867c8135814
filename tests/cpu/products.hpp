// Calls the kernels of products as the executor does.
#pragma once

#include "cpu/instructions.hpp"
#include "cpu/kernel_rows.hpp"
#include "numeric/math.hpp"
#include "support/emulated.hpp"
#include "support/product_cases.hpp"

namespace lapidary::test {

inline const cpu::FloatProducts& best_products() { return *cpu::best_instructions().float_products; }

inline FloatRows linear(const FloatRows& x, const std::vector<link::Matrix>& weights, int parts,
                        const cpu::FloatProducts& products = best_products()) {
  std::vector<const link::Matrix*> pointers;
  int n = 0;
  for (const link::Matrix& weight : weights) {
    pointers.push_back(&weight);
    n += weight.rows;
  }
  const RowBuffer in(x);
  RowBuffer out(count_of(x), n);
  in_parts(parts, [&](cpu::Part part) { cpu::linear(products, count_of(x), in.in(), pointers, out.out(), part); });
  return out.rows();
}

inline FloatRows linear_gelu_mul(const FloatRows& x, const link::Matrix& gate, const link::Matrix& up, int parts,
                                 const cpu::FloatProducts& products = best_products()) {
  const RowBuffer in(x);
  RowBuffer out(count_of(x), gate.rows);
  in_parts(parts, [&](cpu::Part part) { cpu::linear_gelu_mul(products, count_of(x), in.in(), gate, up, out.out(), part); });
  return out.rows();
}

inline FloatRows linear_silu_mul(const FloatRows& x, const link::Matrix& gate, const link::Matrix& up, int parts,
                                 const cpu::FloatProducts& products = best_products()) {
  const RowBuffer in(x);
  RowBuffer out(count_of(x), gate.rows);
  in_parts(parts, [&](cpu::Part part) { cpu::linear_silu_mul(products, count_of(x), in.in(), gate, up, out.out(), part); });
  return out.rows();
}

inline FloatRows linear_gelu_gate(const FloatRows& x, const link::Matrix& weight, const FloatRows& factor, int offset,
                                  int parts, const cpu::FloatProducts& products = best_products()) {
  const RowBuffer in(x), factors(factor);
  RowBuffer out(count_of(x), weight.rows);
  const cpu::In from{factors.in().data + offset, factors.in().stride};
  in_parts(parts, [&](cpu::Part part) { cpu::linear_gelu_gate(products, count_of(x), in.in(), weight, from, out.out(), part); });
  return out.rows();
}

inline FloatRows linear_softcap(const FloatRows& x, const link::Matrix& weight, float cap, int parts,
                                const cpu::FloatProducts& products = best_products()) {
  const RowBuffer in(x);
  RowBuffer out(count_of(x), weight.rows);
  in_parts(parts, [&](cpu::Part part) { cpu::linear_softcap(products, count_of(x), in.in(), weight, cap, out.out(), part); });
  return out.rows();
}

// A way to multiply in float32 that this processor has.
struct FloatWay {
  std::string name;
  const cpu::FloatProducts& products;

  bool rounds_once() const { return numeric::kFusedRoundsOnce || &products != &cpu::kPortableFloatProducts; }
  ProductKernels kernels() const {
    const auto with = [&from = products](auto* kernel) {
      return [&from, kernel](const auto&... arguments) { return kernel(arguments..., from); };
    };
    return {with(linear), with(linear_gelu_mul), with(linear_gelu_gate), with(linear_softcap), with(linear_silu_mul)};
  }
};

inline std::vector<FloatWay> float_ways() {
  std::vector<FloatWay> ways;
  for (const cpu::Instructions& one : cpu::all_instructions())
    if (one.here && (ways.empty() || &ways.back().products != one.float_products)) ways.push_back({std::string(one.name), *one.float_products});
  if (is_emulated()) return {ways.back()};
  return ways;
}

inline const ProductKernels kProducts = float_ways().back().kernels();

}  // namespace lapidary::test
