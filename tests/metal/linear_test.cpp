// linear, linear_gelu_mul, linear_silu_mul, linear_gelu_gate and linear_softcap of every storage, of rounds (linear.metal) and of prompts
// (gemm.metal).
#include <boost/ut.hpp>

#include "metal/products.hpp"
#include "support/published_widths.hpp"

namespace lapidary::test::linear_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

constexpr NumericClass kRound = NumericClass::round, kPrompt = NumericClass::prompt;

// A call with fewer rows than it was recorded for computes those, and leaves the others alone.
void expect_fewer_rows(Random& random, NumericClass numeric, int recorded, int rows) {
  const int k = 192, n = 9;
  const RandomMatrix random_matrix(random, kAffine4, n, k);
  const link::Matrix matrix = random_matrix.view();
  const FloatRows x = random_rows(random, recorded, k), all = linear(x, {matrix}, numeric);
  Stage stage(graph::Op::linear, {.k = k, .n = {n}}, recorded, numeric);
  stage.in(0, x);
  stage.out(0, n);
  stage.matrix(0, matrix);
  stage.run().row_count = rows;
  stage.play();
  const FloatRows y = stage.floats(0);
  for (int r = 0; r < recorded; ++r)
    expect(r < rows ? same_bits(y[r], all[r]) : std::ranges::all_of(y[r], is_untouched)) << "row" << r << "of" << rows;
}

// The output window, `count` rows from `first` on, reads its rows in the row table and writes its own.
void expect_window(Random& random, NumericClass numeric, int rows, int first, int count) {
  const int k = 192, n = 9;
  const RandomMatrix random_matrix(random, kAffine4, n, k);
  const link::Matrix matrix = random_matrix.view();
  const FloatRows x = random_rows(random, rows, k);
  Stage stage(graph::Op::linear, {.k = k, .n = {n}}, count, numeric);
  stage.in(0, x);
  stage.out(0, n);
  stage.matrix(0, matrix);
  stage.params().rows = metal::layout::kOutputRows;
  stage.params().in[0].windowed = 1;
  stage.run().row_count = rows;
  stage.run().first_output = first;
  stage.play();
  const FloatRows expected = linear({x.begin() + first, x.begin() + first + count}, {matrix}, numeric);
  for (int r = 0; r < count; ++r) expect(same_bits(stage.floats(0)[r], expected[r])) << "row" << r;
}

suite<"linear of rounds"> round_suite = [] {
  static const ProductKernels kernels = products_of(kRound);

  for (const Storage& storage : all_storages()) {
    test("linear of " + label(storage) + " is near its definition") = [&storage] {
      Random random(1);
      for (const int k : {32, 64, 96, 128, 160, 192, 704})
        if (fits(storage, k)) expect_linear(random, kernels, storage, k, 11, 3);
    };

    test("linear of " + label(storage) + " gives a row the same bits among any others") = [&storage] {
      Random random(2);
      for (const int k : {192, 640})
        if (fits(storage, k)) expect_linear_alone(random, kernels, storage, k, 11, {12, kRoundWidths});
    };

    test("linear_gelu_mul, linear_gelu_gate and linear_softcap of " + label(storage) +
         " are near their definitions") = [&storage] {
      Random random(3);
      for (const int k : {192, 256})
        if (fits(storage, k)) expect_functions(random, kernels, storage, k, 13, 5);
    };
  }

  "linear is near its definition at the widths of the published models"_test = [] {
    Random random(4);
    for (const Storage& storage : main_storages())
      for (const int k : kPublishedWidths) expect_linear(random, kernels, storage, k, 4, 2);
  };

  "linear gives a row the same bits in the widest products"_test = [] {
    Random random(5);
    for (const int k : {2816, 5376}) expect_linear_alone(random, kernels, kAffine4, k, 8, {8, kRoundWidths});
  };

  "linear_gelu_mul, linear_gelu_gate and linear_softcap give a row the same bits among any others"_test = [] {
    Random random(6);
    for (const Storage& storage : main_storages())
      expect_functions_alone(random, kernels, storage, storage, 256, 7, {12, kRoundWidths});
  };

  "linear_silu_mul is near its definition, and gives a row the same bits among any others"_test = [] {
    Random random(14);
    for (const Storage& storage : main_storages()) expect_silu_mul(random, kernels, storage, 192, 13);
    expect_silu_mul(random, kernels, kAffine4, 2816, 13);
    expect_silu_mul_alone(random, kernels, kAffine4, kPlain, 256, 7, {12, kRoundWidths});
  };

  "linear of several weights equals the products of each, one after the other, whatever their storages"_test = [] {
    Random random(7);
    expect_several_weights(random, kernels, 1536, {21, 9, 5}, {1});
  };

  "linear_gelu_mul takes two weights of different storages"_test = [] {
    Random random(8);
    const int k = 192, n = 9;
    const RandomMatrix random_gate(random, kAffine4, n, k), random_up(random, {Encoding::plain, DType::f16, 16, 0}, n, k);
    const link::Matrix gate = random_gate.view(), up = random_up.view();
    const FloatRows x = random_rows(random, 2, k, -0.2, 0.2), y = linear_gelu_mul(x, gate, up, kRound);
    const FloatRows g = linear_gelu_gate(x, gate, linear(x, {up}, kRound), 0, kRound);
    for (int r = 0; r < 2; ++r) expect(same_bits(y[r], g[r]));
  };

  "a plain matrix may have any number of columns"_test = [] {
    Random random(9);
    for (const Storage& storage : plain_storages())
      for (const int k : {1, 3, 7, 8, 15, 17, 24, 33, 100, 131, 520}) expect_linear(random, kernels, storage, k, 6, 2);
  };

  "linear computes every output of a wide matrix"_test = [] {
    Random random(10);
    for (const int n : {1, 2, 4, 5, 8, 9, 2816, 8195}) expect_linear(random, kernels, kAffine4, 64, n, 1);
  };

  "linear_softcap without a cap is linear"_test = [] {
    Random random(11);
    expect_no_cap_is_linear(random, kernels);
  };

  "linear of the output window reads its rows in the row table and writes its own"_test = [] {
    Random random(12);
    expect_window(random, kRound, 6, 2, 3);
  };

  "a round may have fewer rows than it was recorded for"_test = [] {
    Random random(13);
    expect_fewer_rows(random, kRound, 8, 5);
  };
};

suite<"linear of prompts"> prompt_suite = [] {
  static const ProductKernels kernels = products_of(kPrompt);
  static const Company kCompany{70, {70, 33, 32, 5, 1}};

  for (const Storage& storage : all_storages()) {
    test("linear of " + label(storage) + " is near its definition in a prompt") = [&storage] {
      Random random(1);
      for (const int k : {32, 96, 128, 192})
        if (fits(storage, k)) expect_linear(random, kernels, storage, k, 11, 3);
    };

    test("linear of " + label(storage) + " gives a row of a prompt the same bits among any others") = [&storage] {
      Random random(2);
      const int k = storage.group == 128 ? 128 : 192;
      const RandomMatrix random_matrix(random, storage, 9, k);
      const link::Matrix matrix = random_matrix.view();
      const FloatRows x = random_rows(random, kCompany.rows, k);
      expect_rows_as(random, linear(x, {matrix}, kPrompt), kCompany, [&](const std::vector<int>& numbers, int) {
        return linear(gather(x, numbers), {matrix}, kPrompt);
      });
    };

    test("linear_gelu_mul, linear_gelu_gate and linear_softcap of " + label(storage) +
         " are near their definitions in a prompt") = [&storage] {
      Random random(3);
      expect_functions(random, kernels, storage, 128, 13, 5);
    };
  }

  "linear of a prompt is near its definition at the widths of the published models"_test = [] {
    Random random(4);
    for (const Storage& storage : main_storages())
      for (const int k : {704, 1536, 2112, 2816, 3840, 5376}) expect_linear(random, kernels, storage, k, 4, 2);
    expect_linear(random, kernels, kAffine4, 21504, 4, 2);
  };

  "every row of every place of a tile equals the row alone"_test = [] {
    Random random(5);
    expect_linear_alone(random, kernels, kAffine4, 704, 70, {33, {33, 32, 5}});
  };

  "linear_gelu_mul, linear_gelu_gate and linear_softcap give a row of a prompt the same bits among any others"_test = [] {
    Random random(6);
    expect_functions_alone(random, kernels, kAffine4, kAffine8, 64, 7, kCompany);
  };

  "linear of several weights equals the products of each in a prompt, whatever their storages"_test = [] {
    Random random(7);
    expect_several_weights(random, kernels, 192, {65, 64, 5}, {1});
  };

  "a plain matrix of a prompt may have any number of columns, and any matrix any number of rows"_test = [] {
    Random random(8);
    for (const Storage& storage : plain_storages())
      for (const int k : {1, 7, 8, 17, 24, 33, 100}) expect_linear(random, kernels, storage, k, 6, 2);
    for (const int n : {1, 63, 64, 65, 200}) expect_linear(random, kernels, kAffine4, 64, n, 33);
  };

  "linear_softcap of a prompt without a cap is linear"_test = [] {
    Random random(9);
    expect_no_cap_is_linear(random, kernels);
  };

  "a prompt chunk may have fewer rows than it was recorded for"_test = [] {
    Random random(10);
    for (const int rows : {1, 31, 33, 64}) expect_fewer_rows(random, kPrompt, 70, rows);
  };

  "linear of the output window of a prompt reads its rows in the row table and writes its own"_test = [] {
    Random random(11);
    expect_window(random, kPrompt, 40, 34, 2);
  };
};

// A column of numbers: with the input 1, a function sees any argument.
link::Matrix column(const std::vector<float>& values) {
  link::Matrix matrix;
  matrix.storage = {Encoding::plain, DType::f32, 32, 0};
  matrix.rows = count_of(values);
  matrix.cols = 1;
  matrix.values = reinterpret_cast<const std::byte*>(values.data());
  matrix.row_bytes = sizeof(float);
  return matrix;
}

suite<"functions of products"> function_suite = [] {
  static const std::vector<float> kArguments = sweep(500);

  "gelu is accurate for every argument and x or nothing where tanh saturates"_test = [] {
    const FloatRows ones{std::vector<float>(kArguments.size(), 1.0f)};
    expect_gelu(kArguments, linear_gelu_gate({{1.0f}}, column(kArguments), ones, 0, kRound).front());
  };

  "silu is accurate for every argument"_test = [] {
    const std::vector<float> ones(kArguments.size(), 1.0f);
    expect_silu(kArguments, linear_silu_mul({{1.0f}}, column(kArguments), column(ones)).front());
  };

  "softcap is accurate for every argument and never passes its cap"_test = [] {
    for (const float cap : {30.0f, 1.0f})
      expect_softcap(kArguments, cap, linear_softcap({{1.0f}}, column(kArguments), cap, kRound).front());
  };
};

}  // namespace
}  // namespace lapidary::test::linear_test
