// linear, linear_gelu_mul, linear_gelu_gate and linear_softcap of prompts, of every storage.
#include <boost/ut.hpp>

#include "metal/products.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

constexpr NumericClass kPrompt = NumericClass::prompt;
const std::vector<int> kPromptWidths = {70, 33, 32, 5, 1};

suite<"linear of prompts"> gemm_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("linear of " + label(storage) + " is near its definition in a prompt") = [&storage] {
      Random random(1);
      for (const int k : {32, 96, 128, 192})
        if (fits(storage, k)) expect_linear_near_definition(random, storage, k, 11, 3, kPrompt);
    };

    test("linear of " + label(storage) + " gives a row of a prompt the same bits among any others") = [&storage] {
      Random random(2);
      const int k = storage.group == 128 ? 128 : 192;
      const RandomMatrix random_matrix(random, storage, 9, k);
      const link::Matrix matrix = random_matrix.view();
      const FloatRows x = random_rows(random, 70, k);
      const FloatRows all = linear(x, {matrix}, kPrompt);
      for (const int width : kPromptWidths) {
        const std::vector<int> numbers = random.pick(width, 70);
        const FloatRows some = linear(gather(x, numbers), {matrix}, kPrompt);
        int different = 0;
        for (int r = 0; r < width; ++r) different += !same_bits(some[r], all[numbers[r]]);
        expect(eq(different, 0)) << "rows differ at width" << width;
      }
    };

    test("linear_gelu_mul, linear_gelu_gate and linear_softcap of " + label(storage) +
         " are near their definitions in a prompt") = [&storage] {
      Random random(3);
      expect_epilogues_near_definitions(random, storage, 128, 13, kPrompt);
    };
  }

  "linear of a prompt is near its definition at the widths of the published models"_test = [] {
    Random random(4);
    for (const Storage& storage : main_storages())
      for (const int k : {704, 1536, 2112, 2816, 3840, 5376})
        expect_linear_near_definition(random, storage, k, 4, 2, kPrompt);
    expect_linear_near_definition(random, {Encoding::affine, DType::bf16, 4, 64}, 21504, 4, 2, kPrompt);
  };

  "every row of every place of a tile equals the row alone"_test = [] {
    Random random(5);
    const RandomMatrix random_matrix(random, {Encoding::affine, DType::bf16, 4, 64}, 70, 704);
    const link::Matrix matrix = random_matrix.view();
    const FloatRows x = random_rows(random, 33, 704);
    expect_rows_alone(random, 33, {33, 32, 5}, [&](const std::vector<int>& numbers) {
      return linear(gather(x, numbers), {matrix}, kPrompt);
    });
  };

  "linear_gelu_mul, linear_gelu_gate and linear_softcap give a row of a prompt the same bits among any others"_test = [] {
    Random random(6);
    const int n = 7, k = 64, rows = 70;
    const RandomMatrix random_gate(random, {Encoding::affine, DType::bf16, 4, 64}, n, k);
    const RandomMatrix random_up(random, {Encoding::affine, DType::bf16, 8, 64}, n, k);
    const link::Matrix gate = random_gate.view(), up = random_up.view();
    const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), factor = random_rows(random, rows, n);
    expect_rows_alone(random, rows, kPromptWidths, [&](const std::vector<int>& numbers) {
      return linear_gelu_mul(gather(x, numbers), gate, up, kPrompt);
    });
    expect_rows_alone(random, rows, kPromptWidths, [&](const std::vector<int>& numbers) {
      return linear_gelu_gate(gather(x, numbers), gate, gather(factor, numbers), 0, kPrompt);
    });
    expect_rows_alone(random, rows, kPromptWidths, [&](const std::vector<int>& numbers) {
      return linear_softcap(gather(x, numbers), gate, 30.0f, kPrompt);
    });
  };

  "linear of several weights equals the products of each in a prompt, whatever their storages"_test = [] {
    Random random(7);
    const int k = 192;
    const RandomMatrix q(random, {Encoding::affine, DType::bf16, 4, 64}, 65, k);
    const RandomMatrix k_proj(random, {Encoding::affine, DType::f16, 8, 32}, 64, k);
    const RandomMatrix v(random, {Encoding::plain, DType::bf16, 16, 0}, 5, k);
    const link::Matrix a = q.view(), b = k_proj.view(), c = v.view();
    const FloatRows x = random_rows(random, 6, k);
    const FloatRows ya = linear(x, {a}, kPrompt), yb = linear(x, {b}, kPrompt), yc = linear(x, {c}, kPrompt);
    const FloatRows two = linear(x, {a, b}, kPrompt), three = linear(x, {a, b, c}, kPrompt);
    for (std::size_t r = 0; r < x.size(); ++r) {
      std::vector<float> expected = ya[r];
      expected.insert(expected.end(), yb[r].begin(), yb[r].end());
      expect(same_bits(two[r], expected)) << "two weights";
      expected.insert(expected.end(), yc[r].begin(), yc[r].end());
      expect(same_bits(three[r], expected)) << "three weights";
    }
  };

  "a plain matrix of a prompt may have any number of columns, and any matrix any number of rows"_test = [] {
    Random random(8);
    for (const Storage& storage : plain_storages())
      for (const int k : {1, 7, 8, 17, 24, 33, 100}) expect_linear_near_definition(random, storage, k, 6, 2, kPrompt);
    for (const int n : {1, 63, 64, 65, 200})
      expect_linear_near_definition(random, {Encoding::affine, DType::bf16, 4, 64}, 64, n, 33, kPrompt);
  };

  "linear_softcap of a prompt without a cap is linear"_test = [] {
    Random random(9);
    const RandomMatrix random_matrix(random, {Encoding::plain, DType::bf16, 16, 0}, 33, 256);
    const link::Matrix matrix = random_matrix.view();
    const FloatRows x = random_rows(random, 4, 256);
    const FloatRows y = linear(x, {matrix}, kPrompt), capped = linear_softcap(x, matrix, 0.0f, kPrompt);
    for (std::size_t r = 0; r < x.size(); ++r) expect(same_bits(capped[r], y[r]));
  };

  "a prompt chunk may have fewer rows than it was recorded for"_test = [] {
    Random random(10);
    const int k = 64, n = 9, recorded = 70;
    const RandomMatrix random_matrix(random, {Encoding::affine, DType::bf16, 4, 64}, n, k);
    const link::Matrix matrix = random_matrix.view();
    const FloatRows x = random_rows(random, recorded, k), all = linear(x, {matrix}, kPrompt);
    for (const int rows : {1, 31, 33, 64}) {
      Stage stage(graph::Op::linear, {.k = k, .n = {n}}, recorded, kPrompt);
      stage.in(0, x);
      stage.out(0, n);
      stage.matrix(0, matrix);
      stage.run().row_count = rows;
      stage.play();
      const FloatRows y = stage.floats(0);
      for (int r = 0; r < recorded; ++r)
        expect(r < rows ? same_bits(y[r], all[r]) : std::ranges::all_of(y[r], is_untouched)) << "row" << r << "of" << rows;
    }
  };

  "linear of the output window of a prompt reads its rows in the row table and writes its own"_test = [] {
    Random random(11);
    const int k = 64, n = 9, first = 34, count = 2;
    const RandomMatrix random_matrix(random, {Encoding::affine, DType::bf16, 4, 64}, n, k);
    const link::Matrix matrix = random_matrix.view();
    const FloatRows x = random_rows(random, 40, k);
    Stage stage(graph::Op::linear, {.k = k, .n = {n}}, count, kPrompt);
    stage.in(0, x);
    stage.out(0, n);
    stage.matrix(0, matrix);
    stage.params().rows = metal::layout::kOutputRows;
    stage.params().in[0].windowed = 1;
    stage.run().row_count = 40;
    stage.run().first_output = first;
    stage.play();
    const FloatRows window = stage.floats(0), expected = linear(gather(x, {first, first + 1}), {matrix}, kPrompt);
    for (int r = 0; r < count; ++r) expect(same_bits(window[r], expected[r]));
  };
};

}  // namespace
}  // namespace lapidary::test
