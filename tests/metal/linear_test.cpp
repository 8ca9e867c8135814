// linear, linear_gelu_mul, linear_gelu_gate and linear_softcap of rounds, of every storage.
#include <boost/ut.hpp>

#include "cpu/published_widths.hpp"
#include "metal/products.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

constexpr NumericClass kRound = NumericClass::round;

suite<"linear of rounds"> linear_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("linear of " + label(storage) + " is near its definition") = [&storage] {
      Random random(1);
      for (const int k : {32, 64, 96, 128, 160, 192, 704})
        if (fits(storage, k)) expect_linear_near_definition(random, storage, k, 11, 3, kRound);
    };

    test("linear of " + label(storage) + " gives a row the same bits among any others") = [&storage] {
      Random random(2);
      for (const int k : {192, 640}) {
        if (!fits(storage, k)) continue;
        const RandomMatrix random_matrix(random, storage, 11, k);
        const link::Matrix matrix = random_matrix.view();
        const FloatRows x = random_rows(random, 12, k);
        expect_rows_alone(random, 12, kRoundWidths,
                          [&](const std::vector<int>& numbers) { return linear(gather(x, numbers), {matrix}, kRound); });
      }
    };

    test("linear_gelu_mul, linear_gelu_gate and linear_softcap of " + label(storage) +
         " are near their definitions") = [&storage] {
      Random random(3);
      for (const int k : {192, 256})
        if (fits(storage, k)) expect_epilogues_near_definitions(random, storage, k, 13, kRound);
    };
  }

  "linear is near its definition at the widths of the published models"_test = [] {
    Random random(4);
    for (const Storage& storage : main_storages())
      for (const int k : kPublishedWidths) expect_linear_near_definition(random, storage, k, 4, 2, kRound);
  };

  "linear gives a row the same bits in the widest products"_test = [] {
    Random random(5);
    const Storage storage{Encoding::affine, DType::bf16, 4, 64};
    for (const int k : {2816, 5376}) {
      const RandomMatrix random_matrix(random, storage, 8, k);
      const link::Matrix matrix = random_matrix.view();
      const FloatRows x = random_rows(random, 8, k);
      expect_rows_alone(random, 8, kRoundWidths,
                        [&](const std::vector<int>& numbers) { return linear(gather(x, numbers), {matrix}, kRound); });
    }
  };

  "linear_gelu_mul, linear_gelu_gate and linear_softcap give a row the same bits among any others"_test = [] {
    Random random(6);
    const int n = 7, k = 256, rows = 12;
    for (const Storage& storage : main_storages()) {
      const RandomMatrix random_gate(random, storage, n, k), random_up(random, storage, n, k);
      const link::Matrix gate = random_gate.view(), up = random_up.view();
      const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), factor = random_rows(random, rows, n);
      expect_rows_alone(random, rows, kRoundWidths, [&](const std::vector<int>& numbers) {
        return linear_gelu_mul(gather(x, numbers), gate, up, kRound);
      });
      expect_rows_alone(random, rows, kRoundWidths, [&](const std::vector<int>& numbers) {
        return linear_gelu_gate(gather(x, numbers), gate, gather(factor, numbers), 0, kRound);
      });
      expect_rows_alone(random, rows, kRoundWidths, [&](const std::vector<int>& numbers) {
        return linear_softcap(gather(x, numbers), gate, 30.0f, kRound);
      });
    }
  };

  "linear of several weights equals the products of each, one after the other, whatever their storages"_test = [] {
    Random random(7);
    const int k = 1536;
    const RandomMatrix q(random, {Encoding::affine, DType::bf16, 4, 64}, 21, k);
    const RandomMatrix k_proj(random, {Encoding::affine, DType::f16, 8, 32}, 9, k);
    const RandomMatrix v(random, {Encoding::plain, DType::bf16, 16, 0}, 5, k);
    const link::Matrix a = q.view(), b = k_proj.view(), c = v.view();
    const FloatRows x = random_rows(random, 6, k);
    const FloatRows ya = linear(x, {a}, kRound), yb = linear(x, {b}, kRound), yc = linear(x, {c}, kRound);
    const FloatRows two = linear(x, {a, b}, kRound), three = linear(x, {a, b, c}, kRound);
    for (std::size_t r = 0; r < x.size(); ++r) {
      std::vector<float> expected = ya[r];
      expected.insert(expected.end(), yb[r].begin(), yb[r].end());
      expect(same_bits(two[r], expected)) << "two weights";
      expected.insert(expected.end(), yc[r].begin(), yc[r].end());
      expect(same_bits(three[r], expected)) << "three weights";
    }
  };

  "linear_gelu_mul takes two weights of different storages"_test = [] {
    Random random(8);
    const int k = 192, n = 9;
    const RandomMatrix random_gate(random, {Encoding::affine, DType::bf16, 4, 64}, n, k);
    const RandomMatrix random_up(random, {Encoding::plain, DType::f16, 16, 0}, n, k);
    const link::Matrix gate = random_gate.view(), up = random_up.view();
    const FloatRows x = random_rows(random, 2, k, -0.2, 0.2), y = linear_gelu_mul(x, gate, up, kRound);
    const FloatRows g = linear_gelu_gate(x, gate, linear(x, {up}, kRound), 0, kRound);
    for (int r = 0; r < 2; ++r) expect(same_bits(y[r], g[r]));
  };

  "a plain matrix may have any number of columns"_test = [] {
    Random random(9);
    for (const Storage& storage : plain_storages())
      for (const int k : {1, 3, 7, 8, 15, 17, 24, 33, 100, 131, 520})
        expect_linear_near_definition(random, storage, k, 6, 2, kRound);
  };

  "linear computes every output of a wide matrix"_test = [] {
    Random random(10);
    for (const int n : {1, 2, 4, 5, 8, 9, 2816, 8195})
      expect_linear_near_definition(random, {Encoding::affine, DType::bf16, 4, 64}, 64, n, 1, kRound);
  };

  "linear_softcap without a cap is linear"_test = [] {
    Random random(11);
    const RandomMatrix random_matrix(random, {Encoding::plain, DType::bf16, 16, 0}, 33, 256);
    const link::Matrix matrix = random_matrix.view();
    const FloatRows x = random_rows(random, 4, 256);
    const FloatRows y = linear(x, {matrix}, kRound), capped = linear_softcap(x, matrix, 0.0f, kRound);
    for (std::size_t r = 0; r < x.size(); ++r) expect(same_bits(capped[r], y[r]));
  };

  "a round may have fewer rows than it was recorded for"_test = [] {
    Random random(13);
    const int k = 192, n = 9, recorded = 8, rows = 5;
    const RandomMatrix random_matrix(random, {Encoding::affine, DType::bf16, 4, 64}, n, k);
    const link::Matrix matrix = random_matrix.view();
    const FloatRows x = random_rows(random, recorded, k), all = linear(x, {matrix}, kRound);
    Stage stage(graph::Op::linear, {.k = k, .n = {n}}, recorded);
    stage.in(0, x);
    stage.out(0, n);
    stage.matrix(0, matrix);
    stage.run().row_count = rows;
    stage.play();
    const FloatRows y = stage.floats(0);
    for (int r = 0; r < recorded; ++r)
      expect(r < rows ? same_bits(y[r], all[r]) : std::ranges::all_of(y[r], is_untouched)) << "row" << r;
  };

  "linear of the output window reads its rows in the row table and writes its own"_test = [] {
    Random random(12);
    const int k = 192, n = 9, first = 2, count = 3;
    const RandomMatrix random_matrix(random, {Encoding::affine, DType::bf16, 4, 64}, n, k);
    const link::Matrix matrix = random_matrix.view();
    const FloatRows x = random_rows(random, 6, k);
    Stage stage(graph::Op::linear, {.k = k, .n = {n}}, count);
    stage.in(0, x);
    stage.out(0, n);
    stage.matrix(0, matrix);
    stage.params().rows = metal::layout::kOutputRows;
    stage.params().in[0].windowed = 1;
    stage.run().row_count = 6;
    stage.run().first_output = first;
    stage.play();
    const FloatRows window = stage.floats(0), expected = linear(gather(x, {first, first + 1, first + 2}), {matrix}, kRound);
    for (int r = 0; r < count; ++r) expect(same_bits(window[r], expected[r]));
  };
};

// A column of numbers: with the input 1, a function sees any argument.
struct Column {
  std::vector<float> values;

  link::Matrix view() const {
    link::Matrix matrix;
    matrix.storage = {Encoding::plain, DType::f32, 32, 0};
    matrix.rows = static_cast<std::int32_t>(values.size());
    matrix.cols = 1;
    matrix.values = reinterpret_cast<const std::byte*>(values.data());
    matrix.row_bytes = sizeof(float);
    return matrix;
  }
};

Column sweep() {
  Column all{{0.0f, 1e-38f, -1e-38f, 1e-20f, -1e-20f, 1e-10f, -1e-6f, 1e-3f, -1e-3f}};
  for (int i = -10000; i <= 10000; ++i) all.values.push_back(static_cast<float>(i) * 2e-3f);
  for (const float large : {25.0f, 50.0f, 90.0f, 300.0f, 1e4f, 1e8f, 1e13f, 1e20f, 3e38f}) {
    all.values.push_back(large);
    all.values.push_back(-large);
  }
  return all;
}

suite<"functions of products"> function_suite = [] {
  "gelu is accurate for every argument and x or nothing where tanh saturates"_test = [] {
    const Column x = sweep();
    const FloatRows ones{std::vector<float>(x.values.size(), 1.0f)};
    const auto y = linear_gelu_gate({{1.0f}}, x.view(), ones, 0, kRound).front();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double argument = x.values[i], expected = reference::gelu(argument);
      const double allowed = std::abs(argument) > 10 ? 1e-30 : kFunctionError * std::abs(argument) + 1e-44;
      if (!(std::abs(y[i] - expected) <= allowed))
        expect(false) << "gelu(" << argument << ") =" << y[i] << "expected" << expected;
    }
    expect(eq(y.size(), x.values.size()));
  };

  "softcap is accurate for every argument and never passes its cap"_test = [] {
    const Column x = sweep();
    for (const float cap : {30.0f, 1.0f}) {
      const auto y = linear_softcap({{1.0f}}, x.view(), cap, kRound).front();
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double expected = reference::softcap(x.values[i], cap);
        if (!(std::abs(y[i] - expected) <= kFunctionError * cap) || std::abs(y[i]) > cap)
          expect(false) << "softcap(" << x.values[i] << ") =" << y[i] << "expected" << expected;
      }
      expect(eq(y.size(), x.values.size()));
    }
  };
};

}  // namespace
}  // namespace lapidary::test
