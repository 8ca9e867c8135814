// linear, linear_gelu_mul, linear_gelu_gate and linear_softcap of every storage, at the widths of the published models.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "cpu/linear_tolerance.hpp"
#include "cpu/published_widths.hpp"
#include "reference/linear.hpp"
#include "support/random_weights.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

std::vector<int> all_widths() {
  std::vector<int> all = kPublishedWidths;
  all.insert(all.end(), kSmallWidths.begin(), kSmallWidths.end());
  return all;
}

std::vector<int> widths_for(const Storage& storage, const std::vector<int>& widths) {
  std::vector<int> some;
  for (const int k : widths)
    if (fits(storage, k)) some.push_back(k);
  return some;
}

FloatRows linear(const FloatRows& x, const std::vector<const link::Matrix*>& weights, int parts = 1) {
  int n = 0;
  for (const link::Matrix* weight : weights) n += weight->rows;
  const RowBuffer in(x);
  RowBuffer out(static_cast<int>(x.size()), n);
  in_parts(parts, [&](cpu::Part part) { cpu::linear(static_cast<int>(x.size()), in.in(), weights, out.out(), part); });
  return out.rows();
}

FloatRows linear_gelu_mul(const FloatRows& x, const link::Matrix& gate, const link::Matrix& up, int parts = 1) {
  const RowBuffer in(x);
  RowBuffer out(static_cast<int>(x.size()), gate.rows);
  in_parts(parts, [&](cpu::Part part) {
    cpu::linear_gelu_mul(static_cast<int>(x.size()), in.in(), gate, up, out.out(), part);
  });
  return out.rows();
}

FloatRows linear_gelu_gate(const FloatRows& x, const link::Matrix& weight, const FloatRows& factor, int parts = 1) {
  const RowBuffer in(x), factors(factor);
  RowBuffer out(static_cast<int>(x.size()), weight.rows);
  in_parts(parts, [&](cpu::Part part) {
    cpu::linear_gelu_gate(static_cast<int>(x.size()), in.in(), weight, factors.in(), out.out(), part);
  });
  return out.rows();
}

FloatRows linear_softcap(const FloatRows& x, const link::Matrix& weight, float cap, int parts = 1) {
  const RowBuffer in(x);
  RowBuffer out(static_cast<int>(x.size()), weight.rows);
  in_parts(parts, [&](cpu::Part part) {
    cpu::linear_softcap(static_cast<int>(x.size()), in.in(), weight, cap, out.out(), part);
  });
  return out.rows();
}

void expect_linear_near_definition(Random& random, const Storage& storage, int k, int n) {
  const RandomMatrix random_matrix(random, storage, n, k);
  const link::Matrix matrix = random_matrix.view();
  const reference::Table w = reference::dequantise(matrix), magnitude = reference::magnitudes(matrix);
  const FloatRows x = random_rows(random, 3, k);
  const FloatRows y = linear(x, {&matrix});
  for (std::size_t r = 0; r < x.size(); ++r)
    expect(worst_error(y[r], reference::linear(w, doubles(x[r])), product_errors(magnitude, x[r])) <= 1.0_d)
        << "K =" << k;
}

suite<"linear"> linear_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("linear of " + label(storage) + " is near its definition") = [&storage] {
      Random random(1);
      // The type of the scales matters for reading them, not for the widths.
      const bool every_width =
          storage.type == DType::bf16 || storage.group == 0 || storage.encoding != Encoding::affine;
      for (const int k : widths_for(storage, every_width ? all_widths() : std::vector<int>{192, 704, 2112, 2816}))
        expect_linear_near_definition(random, storage, k, k <= 2816 ? 23 : 5);
    };

    test("linear of " + label(storage) + " gives a row the same bits among any others") = [&storage] {
      Random random(2);
      for (const int k : widths_for(storage, {192, 704, 1536})) {
        const RandomMatrix random_matrix(random, storage, 11, k);
        const link::Matrix matrix = random_matrix.view();
        const FloatRows x = random_rows(random, 67, k);
        expect_rows_independent(random, 67, [&](const std::vector<int>& numbers, int parts) {
          return linear(gather(x, numbers), {&matrix}, parts);
        });
      }
    };

    test("linear of " + label(storage) + " gives a row the same bits in the widest products") = [&storage] {
      Random random(3);
      for (const int k : widths_for(storage, {5376, 21504})) {
        const RandomMatrix random_matrix(random, storage, 5, k);
        const link::Matrix matrix = random_matrix.view();
        const FloatRows x = random_rows(random, 8, k);
        expect_rows_independent(random, 8, [&](const std::vector<int>& numbers, int parts) {
          return linear(gather(x, numbers), {&matrix}, parts);
        });
      }
    };

    test("linear_gelu_mul, linear_gelu_gate and linear_softcap of " + label(storage) +
         " are near their definitions") = [&storage] {
      Random random(4);
      for (const int k : widths_for(storage, {192, 256, 2816})) {
        const int n = 13;
        const RandomMatrix random_gate(random, storage, n, k), random_up(random, storage, n, k);
        const link::Matrix gate = random_gate.view(), up = random_up.view();
        const reference::Table gate_values = reference::dequantise(gate), up_values = reference::dequantise(up);
        const reference::Table gate_magnitude = reference::magnitudes(gate), up_magnitude = reference::magnitudes(up);
        const FloatRows x = random_rows(random, 2, k, -0.2, 0.2), factor = random_rows(random, 2, n);
        const FloatRows product = linear_gelu_mul(x, gate, up), gated = linear_gelu_gate(x, gate, factor);
        const FloatRows capped = linear_softcap(x, gate, 30.0f);
        for (int r = 0; r < 2; ++r) {
          const auto input = doubles(x[r]), factors = doubles(factor[r]);
          const auto g = reference::linear(gate_values, input), u = reference::linear(up_values, input);
          const auto g_error = product_errors(gate_magnitude, x[r]), u_error = product_errors(up_magnitude, x[r]);
          expect(worst_error(product[r], reference::linear_gelu_mul(gate_values, up_values, input),
                             gelu_mul_errors(g, g_error, u, u_error)) <= 1.0_d)
              << "linear_gelu_mul, K =" << k;
          expect(worst_error(gated[r], reference::linear_gelu_gate(gate_values, input, factors),
                             gelu_mul_errors(g, g_error, factors, std::vector<double>(n, 0.0))) <= 1.0_d)
              << "linear_gelu_gate, K =" << k;
          expect(worst_error(capped[r], reference::linear_softcap(gate_values, input, 30.0),
                             softcap_errors(g_error, 30.0)) <= 1.0_d)
              << "linear_softcap, K =" << k;
        }
      }
    };

    test("linear_gelu_mul, linear_gelu_gate and linear_softcap of " + label(storage) +
         " give a row the same bits among any others") = [&storage] {
      Random random(5);
      const int n = 7, k = 256, rows = 67;
      const RandomMatrix random_gate(random, storage, n, k), random_up(random, storage, n, k);
      const link::Matrix gate = random_gate.view(), up = random_up.view();
      const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), factor = random_rows(random, rows, n);
      expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
        return linear_gelu_mul(gather(x, numbers), gate, up, parts);
      });
      expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
        return linear_gelu_gate(gather(x, numbers), gate, gather(factor, numbers), parts);
      });
      expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
        return linear_softcap(gather(x, numbers), gate, 30.0f, parts);
      });
    };
  }

  "linear of several weights equals the products of each, one after the other, whatever their storages"_test = [] {
    Random random(6);
    const int k = 1536;
    const RandomMatrix q(random, {Encoding::affine, DType::bf16, 4, 64}, 21, k);
    const RandomMatrix k_proj(random, {Encoding::affine, DType::bf16, 8, 64}, 9, k);
    const RandomMatrix v(random, {Encoding::plain, DType::bf16, 16, 0}, 5, k);
    const link::Matrix a = q.view(), b = k_proj.view(), c = v.view();
    const FloatRows x = random_rows(random, 6, k);
    const FloatRows ya = linear(x, {&a}), yb = linear(x, {&b}), yc = linear(x, {&c});
    for (const int parts : {1, 2, 3, 5}) {
      const FloatRows two = linear(x, {&a, &b}, parts), three = linear(x, {&a, &b, &c}, parts);
      for (std::size_t r = 0; r < x.size(); ++r) {
        std::vector<float> expected = ya[r];
        expected.insert(expected.end(), yb[r].begin(), yb[r].end());
        expect(same_bits(two[r], expected)) << "two weights in" << parts << "parts";
        expected.insert(expected.end(), yc[r].begin(), yc[r].end());
        expect(same_bits(three[r], expected)) << "three weights in" << parts << "parts";
      }
    }
  };

  "linear computes every output of every published height in any number of parts"_test = [] {
    Random random(7);
    const int k = 64;
    for (const int n :
         {1, 2, 3, 128, 256, 512, 704, 1024, 1536, 2112, 2560, 2816, 3840, 5376, 8960, 10752, 16384, 21504, 262144}) {
      const RandomMatrix random_matrix(random, {Encoding::affine, DType::bf16, 4, 64}, n, k);
      const link::Matrix matrix = random_matrix.view();
      const FloatRows x = random_rows(random, 2, k);
      const FloatRows whole = linear(x, {&matrix});
      for (const int parts : {2, 3, 7}) {
        const FloatRows split = linear(x, {&matrix}, parts);
        for (int r = 0; r < 2; ++r) expect(same_bits(split[r], whole[r])) << "N =" << n << "in" << parts << "parts";
      }
      for (const int row : {0, n / 3, n / 2, n - 1}) {
        const double expected = reference::dot(reference::dequantise_row(matrix, row), doubles(x[0]));
        double magnitude = 0.0;
        for (int col = 0; col < k; ++col)
          magnitude += reference::weight_at(matrix, row, col).magnitude() * std::abs(x[0][col]);
        expect(std::abs(whole[0][row] - expected) <= kProductError * magnitude) << "row" << row << "of" << n;
      }
    }
  };

  "linear gives a row the same bits in a chunk of hundreds of rows"_test = [] {
    Random random(10);
    for (const Storage& storage :
         {Storage{Encoding::plain, DType::bf16, 16, 0}, Storage{Encoding::affine, DType::bf16, 4, 64}}) {
      const RandomMatrix random_matrix(random, storage, 9, 192);
      const link::Matrix matrix = random_matrix.view();
      const FloatRows x = random_rows(random, 259, 192);
      expect_rows_independent(random, 259, [&](const std::vector<int>& numbers, int parts) {
        return linear(gather(x, numbers), {&matrix}, parts);
      });
    }
  };

  "a plain matrix may have any number of columns"_test = [] {
    Random random(8);
    for (const Storage& storage : plain_storages())
      for (const int k : {1, 3, 7, 15, 17, 33, 100, 131}) expect_linear_near_definition(random, storage, k, 6);
  };

  "linear_softcap without a cap is linear"_test = [] {
    Random random(9);
    const RandomMatrix random_matrix(random, {Encoding::plain, DType::bf16, 16, 0}, 33, 256);
    const link::Matrix matrix = random_matrix.view();
    const FloatRows x = random_rows(random, 4, 256);
    const FloatRows y = linear(x, {&matrix}), capped = linear_softcap(x, matrix, 0.0f);
    for (std::size_t r = 0; r < x.size(); ++r) expect(same_bits(capped[r], y[r]));
  };
};

// One f32 weight [1, 2] that picks the first or the second input, so that a function sees any argument.
link::Matrix picker(const float (&values)[2]) {
  link::Matrix matrix;
  matrix.storage = {Encoding::plain, DType::f32, 32, 0};
  matrix.rows = 1;
  matrix.cols = 2;
  matrix.values = reinterpret_cast<const std::byte*>(values);
  matrix.row_bytes = sizeof(values);
  return matrix;
}

std::vector<float> sweep() {
  std::vector<float> all = {0.0f, 1e-38f, -1e-38f, 1e-20f, -1e-20f, 1e-10f, -1e-6f, 1e-3f, -1e-3f};
  for (int i = -200000; i <= 200000; ++i) all.push_back(static_cast<float>(i) * 1e-4f);
  for (const float large : {25.0f, 50.0f, 90.0f, 300.0f, 1e4f, 1e8f, 1e13f, 1e20f, 3e38f}) {
    all.push_back(large);
    all.push_back(-large);
  }
  return all;
}

suite<"functions"> function_suite = [] {
  "gelu is accurate for every argument and x or nothing where tanh saturates"_test = [] {
    const float first[2] = {1.0f, 0.0f};
    FloatRows x, one;
    for (const float argument : sweep()) {
      x.push_back({argument, 0.0f});
      one.push_back({1.0f});
    }
    const FloatRows y = linear_gelu_gate(x, picker(first), one);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double argument = x[i][0], expected = reference::gelu(argument);
      // x/2 times a sum of two numbers near one: a few roundings of |x|. Beyond 10 it is x or nothing.
      const double allowed = std::abs(argument) > 10 ? 1e-30 : kFunctionError * std::abs(argument) + 1e-44;
      if (!(std::abs(y[i][0] - expected) <= allowed))
        expect(false) << "gelu(" << argument << ") =" << y[i][0] << "expected" << expected;
    }
    expect(eq(y.size(), x.size()));
  };

  "softcap is accurate for every argument and never passes its cap"_test = [] {
    const float second[2] = {0.0f, 1.0f};
    for (const float cap : {30.0f, 50.0f, 1.0f}) {
      FloatRows x;
      for (const float argument : sweep()) x.push_back({0.0f, argument});
      const FloatRows y = linear_softcap(x, picker(second), cap);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = reference::softcap(x[i][1], cap);
        if (!(std::abs(y[i][0] - expected) <= kFunctionError * cap) || std::abs(y[i][0]) > cap)
          expect(false) << "softcap(" << x[i][1] << ") =" << y[i][0] << "expected" << expected;
      }
      expect(eq(y.size(), x.size()));
    }
  };
};

}  // namespace
}  // namespace lapidary::test
