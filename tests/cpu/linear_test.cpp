// linear, linear_gelu_mul, linear_silu_mul, linear_gelu_gate and linear_softcap of every storage, at the widths of the published models.
#include <boost/ut.hpp>

#include "cpu/products.hpp"
#include "cpu/vec.hpp"
#include "numeric/bf16.hpp"
#include "numeric/math.hpp"
#include "support/emulated.hpp"
#include "support/guarded.hpp"
#include "support/published_widths.hpp"

namespace lapidary::test::linear_test {
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

// A product as src/cpu/dot.hpp defines it: element i goes to lane i % 8, ascending, and the lanes are summed by one tree.
float product_of_lanes(const std::vector<float>& weights, const std::vector<float>& x, bool rounds_once) {
  float lanes[cpu::kLanes] = {};
  for (std::size_t i = 0; i < x.size(); ++i) {
    float& lane = lanes[i % cpu::kLanes];
    lane = rounds_once ? std::fma(x[i], weights[i], lane) : x[i] * weights[i] + lane;
  }
  return cpu::sum_lanes(lanes);
}

// Where nothing rounds once, the product of scale and code is rounded before its sum with the bias, too.
std::vector<float> weights_of(const link::Matrix& matrix, int row, bool rounds_once) {
  std::vector<float> weights;
  for (int col = 0; col < matrix.cols; ++col) {
    const reference::Weight weight = reference::weight_at(matrix, row, col);
    const double scaled = rounds_once ? weight.scaled : static_cast<float>(weight.scaled);
    weights.push_back(static_cast<float>(scaled + weight.bias));
  }
  return weights;
}

void expect_lanes(const FloatWay& way, const link::Matrix& matrix, const FloatRows& x) {
  const FloatRows y = linear(x, {matrix}, 1, way.products);
  for (int n = 0; n < matrix.rows; ++n) {
    const std::vector<float> weights = weights_of(matrix, n, way.rounds_once());
    for (std::size_t r = 0; r < x.size(); ++r)
      expect(same_bits({y[r][n]}, {product_of_lanes(weights, x[r], way.rounds_once())}))
          << "weight row" << n << "of" << matrix.rows << "x" << matrix.cols << "with row" << r << "of" << x.size();
  }
}

// A matrix behind whose bytes nothing can be read.
struct GuardedMatrix {
  GuardedMatrix(const link::Matrix& matrix, std::size_t spare)
      : values({matrix.values, matrix.row_bytes * matrix.rows}, spare),
        scales({matrix.scales, matrix.scale_row_bytes * matrix.rows}, spare),
        biases({matrix.biases, matrix.biases ? matrix.scale_row_bytes * matrix.rows : 0}, spare), view(matrix) {
    view.values = values.data();
    if (matrix.scales) view.scales = scales.data();
    if (matrix.biases) view.biases = biases.data();
  }
  Guarded values, scales, biases;
  link::Matrix view;
};

suite<"linear"> linear_suite = [] {
  for (const FloatWay& way : float_ways()) {
    const std::string by = " by " + way.name + " code";
    for (const Storage& storage : is_emulated() ? main_storages() : all_storages()) {
      test("linear of " + label(storage) + by + " is near its definition") = [&way, &storage] {
        Random random(1);
        // The type of the scales matters for reading them, not for the widths.
        const bool every_width =
            storage.type == DType::bf16 || storage.group == 0 || storage.encoding != Encoding::affine;
        for (const int k : widths_for(storage, every_width ? all_widths() : std::vector<int>{192, 704, 2112, 2816}))
          expect_linear(random, way.kernels(), storage, k, k <= 2816 ? 23 : 5, 3);
      };

      test("linear of " + label(storage) + by + " gives a row the same bits among any others") = [&way, &storage] {
        Random random(2);
        for (const int k : widths_for(storage, {192, 704, 1536}))
          expect_linear_alone(random, way.kernels(), storage, k, 11, all_company(67));
      };

      test("linear of " + label(storage) + by + " gives a row the same bits in the widest products") = [&way, &storage] {
        Random random(3);
        for (const int k : widths_for(storage, {5376, 21504}))
          expect_linear_alone(random, way.kernels(), storage, k, 5, all_company(8));
      };

      test("linear of " + label(storage) + by + " sums by lanes, to the bit") = [&way, &storage] {
        Random random(11);
        for (const int k : widths_for(storage, {32, 64, 96, 128, 512, 704, 1536})) {
          const RandomMatrix random_matrix(random, storage, 7, k);
          for (const int rows : {1, 2, 3, 4, 5, 8, 9}) expect_lanes(way, random_matrix.view(), random_rows(random, rows, k));
        }
      };

      test("linear of " + label(storage) + by + " reads nothing behind weights, scales and activations") = [&way, &storage] {
        Random random(12);
        for (const int k : widths_for(storage, {32, 64, 128, 704}))
          for (const int n : {1, 4, 6, 17}) {
            const RandomMatrix random_matrix(random, storage, n, k);
            const link::Matrix matrix = random_matrix.view();
            const FloatRows x = random_rows(random, 1, k), expected = linear(x, {matrix}, 1, way.products);
            const Guarded guarded_x(std::as_bytes(std::span(x[0])));
            for (const std::size_t spare : {0, 3}) {
              const GuardedMatrix guarded(matrix, spare);
              const link::Matrix* weight = &guarded.view;
              std::vector<float> y(n);
              cpu::linear(way.products, 1, {reinterpret_cast<const float*>(guarded_x.data()), 0}, {&weight, 1}, {y.data(), 0}, {});
              expect(same_bits(y, expected[0])) << n << "x" << k;
            }
          }
      };

      test("linear_gelu_mul, linear_gelu_gate and linear_softcap of " + label(storage) + by +
           " are near their definitions") = [&way, &storage] {
        Random random(4);
        for (const int k : widths_for(storage, {192, 256, 2816})) expect_functions(random, way.kernels(), storage, k, 13, 5);
      };

      test("linear_gelu_mul, linear_gelu_gate and linear_softcap of " + label(storage) + by +
           " give a row the same bits among any others") = [&way, &storage] {
        Random random(5);
        expect_functions_alone(random, way.kernels(), storage, storage, 256, 7, all_company(67));
      };
    }
  }

  "linear_silu_mul is near its definition, and gives a row the same bits among any others"_test = [] {
    Random random(15);
    for (const Storage& storage : main_storages())
      for (const int k : {192, 256, 2816})
        if (fits(storage, k)) expect_silu_mul(random, kProducts, storage, k, 13);
    expect_silu_mul_alone(random, kProducts, kAffine4, kPlain, 256, 7, all_company(67));
  };

  "linear of several weights equals the products of each, one after the other, whatever their storages"_test = [] {
    Random random(6);
    expect_several_weights(random, kProducts, 1536, {21, 9, 5}, {1, 2, 3, 5});
  };

  "linear computes every output of every published height in any number of parts"_test = [] {
    Random random(7);
    const int k = 64;
    for (const int n :
         {1, 2, 3, 128, 256, 512, 704, 1024, 1536, 2112, 2560, 2816, 3840, 5376, 8960, 10752, 16384, 21504, 262144}) {
      if (is_emulated() && n > 2816) break;
      const RandomMatrix random_matrix(random, kAffine4, n, k);
      const link::Matrix matrix = random_matrix.view();
      const FloatRows x = random_rows(random, 2, k);
      const FloatRows whole = linear(x, {matrix}, 1);
      for (const int parts : {2, 3, 7}) {
        const FloatRows split = linear(x, {matrix}, parts);
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
    for (const Storage& storage : {kPlain, kAffine4})
      expect_linear_alone(random, kProducts, storage, 192, 9, all_company(259));
  };

  "a plain matrix may have any number of columns"_test = [] {
    Random random(8);
    for (const Storage& storage : plain_storages())
      for (const int k : {1, 3, 7, 15, 17, 33, 100, 131}) expect_linear(random, kProducts, storage, k, 6, 3);
  };

  "a plain matrix of any number of columns and rows is multiplied by lanes, to the bit"_test = [] {
    Random random(13);
    for (const Storage& storage : plain_storages())
      for (const int k : {1, 7, 8, 31, 40, 47, 48, 49, 63, 79, 80, 81, 112, 131, 515})
        for (const int n : {1, 2, 3, 4, 5, 19}) {
          const RandomMatrix random_matrix(random, storage, n, k);
          for (const int rows : {1, 2, 3, 4, 7})
            for (const FloatWay& way : float_ways()) expect_lanes(way, random_matrix.view(), random_rows(random, rows, k));
        }
  };

  "what is not a number or infinite in a bf16 weight is so in its products and in no others"_test = [] {
    Random random(14);
    const int k = 200, n = 9;
    for (const std::uint16_t bad : {0x7fc0, 0xffc1, 0x7f81, 0x7f80, 0xff80})
      for (const int col : {0, 1, 7, 8, 31, 64, 183, 184, 199})
        for (const int rows : {1, 2, 4, 8, 9}) {
          RandomMatrix matrix(random, kPlain, n, k);
          FloatRows x = random_rows(random, rows, k);
          for (auto& row : x) row[col] = 1.0f;
          const FloatRows expected = linear(x, {matrix.view()}, 1);
          const int bad_row = random.below(n);
          std::memcpy(matrix.values() + (bad_row * k + col) * 2, &bad, sizeof bad);
          const FloatRows y = linear(x, {matrix.view()}, 1);
          for (int r = 0; r < rows; ++r)
            for (int j = 0; j < n; ++j) {
              const float value = numeric::from_bf16(bad);
              const bool right = j != bad_row       ? same_bits({y[r][j]}, {expected[r][j]})
                                 : value == value ? y[r][j] == value
                                                  : y[r][j] != y[r][j];
              expect(right) << value << "in weight" << bad_row << col << "seen in" << j << "with row" << r << "of" << rows;
            }
        }
  };

  "linear_softcap without a cap is linear"_test = [] {
    Random random(9);
    expect_no_cap_is_linear(random, kProducts);
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

std::vector<float> first_of(const FloatRows& rows) {
  std::vector<float> all;
  for (const auto& row : rows) all.push_back(row[0]);
  return all;
}

suite<"functions"> function_suite = [] {
  static const std::vector<float> kArguments = sweep(is_emulated() ? 1'000 : 10'000);

  "gelu is accurate for every argument and x or nothing where tanh saturates"_test = [] {
    const float first[2] = {1.0f, 0.0f};
    FloatRows x;
    for (const float argument : kArguments) x.push_back({argument, 0.0f});
    expect_gelu(kArguments, first_of(linear_gelu_gate(x, picker(first), FloatRows(x.size(), {1.0f}), 0, 1)));
  };

  "silu is accurate for every argument"_test = [] {
    const float first[2] = {1.0f, 0.0f}, second[2] = {0.0f, 1.0f};
    FloatRows x;
    for (const float argument : kArguments) x.push_back({argument, 1.0f});
    expect_silu(kArguments, first_of(linear_silu_mul(x, picker(first), picker(second), 1)));
  };

  "softcap is accurate for every argument and never passes its cap"_test = [] {
    const float second[2] = {0.0f, 1.0f};
    FloatRows x;
    for (const float argument : kArguments) x.push_back({0.0f, argument});
    for (const float cap : {30.0f, 50.0f, 1.0f})
      expect_softcap(kArguments, cap, first_of(linear_softcap(x, picker(second), cap, 1)));
  };
};

}  // namespace
}  // namespace lapidary::test::linear_test
