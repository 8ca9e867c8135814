// The kernels of towers of a backend near their definitions, at the widths of the published models and at odd ones.
#pragma once

#include <array>
#include <cmath>

#include "reference/dequantise.hpp"
#include "reference/tower.hpp"
#include "support/random_weights.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

struct TowerKernels {
  std::function<FloatRows(const FloatRows& x, float scale, float shift)> scale_shift;
  std::function<FloatRows(const FloatRows& h, int columns, const link::Matrix& table, bool axis_inside)> add_positions;
  std::function<FloatRows(int rows, int columns, const std::vector<float>& frequencies)> grid_angles;
  std::function<FloatRows(const FloatRows& qkv, const FloatRows& angles, const std::vector<float>& q_norm, const std::vector<float>& k_norm)> qkv_grid_rope;
  // bias, factor: empty = no standard
  std::function<FloatRows(const FloatRows& x, int columns, int side, float scale, const std::vector<float>& bias, const std::vector<float>& factor)> pool;
  std::function<FloatRows(const FloatRows& x, const std::vector<float>& weight, const std::vector<float>& bias, float epsilon)> layer_norm;
  // Returns h | normed of each row; weight empty = h alone.
  std::function<FloatRows(const FloatRows& h, const FloatRows& y, const std::vector<float>& weight)> add_norm;
  std::function<FloatRows(const FloatRows& x)> rms;
  std::function<FloatRows(const FloatRows& h, const FloatRows& y, const std::vector<float>& weight, float part)> residual_part;
  std::function<FloatRows(const FloatRows& x, int bands, const FloatRows& taps, const std::vector<float>& norm)> conv_norm_relu;
  std::function<FloatRows(int rows, const std::vector<float>& frequencies)> distance_waves;
  std::function<FloatRows(const FloatRows& qkv, const FloatRows& relative, const std::vector<float>& dim_scale, const reference::LocalAttention& shape)> local_attention;
  std::function<FloatRows(const FloatRows& x, const FloatRows& taps, const std::vector<float>& norm)> glu_conv;
};

inline reference::Table table_of(const FloatRows& rows) {
  reference::Table all;
  for (const auto& row : rows) all.push_back(doubles(row));
  return all;
}

inline reference::Table table_of(const link::Matrix& matrix) {
  reference::Table all;
  for (int r = 0; r < matrix.rows; ++r) all.push_back(reference::dequantise_row(matrix, r));
  return all;
}

// Row by row, as a table of weights lies.
inline std::vector<float> joined(const FloatRows& rows) {
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

// Off by so much of one, or of a number itself where that is larger.
inline void expect_near(const FloatRows& got, const reference::Table& expected, double error) {
  using namespace boost::ut;
  expect(fatal(got.size() == expected.size()));
  double worst = 0.0;
  for (std::size_t r = 0; r < got.size(); ++r) {
    expect(fatal(got[r].size() == expected[r].size()));
    for (std::size_t i = 0; i < got[r].size(); ++i) {
      const double off = std::abs(got[r][i] - expected[r][i]);
      worst = std::isnan(off) ? INFINITY : std::max(worst, off / (1.0 + std::abs(expected[r][i])));
    }
  }
  expect(worst <= error) << worst;
}

inline void expect_same(const FloatRows& a, const FloatRows& b) {
  using namespace boost::ut;
  expect(fatal(a.size() == b.size()));
  for (std::size_t r = 0; r < a.size(); ++r) expect(same_bits(a[r], b[r])) << "row" << r;
}

inline void test_vision_kernels(const TowerKernels& kernels) {
  using namespace boost::ut;
  using reference::Table;
  using reference::Vector;

  "scale_shift"_test = [&] {
    Random random(1);
    for (const int n : {45, 768}) {
      const FloatRows x = random_rows(random, 7, n);
      Table expected = table_of(x);
      for (Vector& row : expected)
        for (double& value : row) value = 2 * value - 1;
      expect_near(kernels.scale_shift(x, 2.0f, -1.0f), expected, 1e-6);
    }
  };

  "add_positions finds column and row in either layout of the table"_test = [&] {
    Random random(2);
    const int columns = 5, rows = 15, n = 300, positions = 9;
    for (const Storage& storage : plain_storages())
      for (const bool inside : {false, true}) {
        const RandomMatrix weights(random, storage, 2 * positions, n);
        const FloatRows h = random_rows(random, rows, n);
        const Table whole = table_of(weights.view());
        Table expected;
        for (int r = 0; r < rows; ++r) expected.push_back(reference::add_positions(doubles(h[r]), whole, r % columns, r / columns, inside));
        expect_near(kernels.add_positions(h, columns, weights.view(), inside), expected, 1e-6);
      }
  };

  "grid_angles and qkv_grid_rope turn halves of a head by column and by row"_test = [&] {
    Random random(3);
    for (const auto& [heads, d] : {std::pair{2, 32}, {12, 64}, {16, 72}, {3, 48}, {1, 8}}) {
      const int rows = 9, columns = 3;
      std::vector<float> frequencies;
      for (int i = 0; i < d / 4; ++i) frequencies.push_back(static_cast<float>(std::pow(100.0, -4.0 * i / d)));
      const FloatRows angles = kernels.grid_angles(rows, columns, frequencies);
      Table expected_angles;
      for (int r = 0; r < rows; ++r) expected_angles.push_back(reference::grid_angles(r % columns, r / columns, frequencies));
      expect_near(angles, expected_angles, 1e-6);

      const FloatRows qkv = random_rows(random, rows, 3 * heads * d);
      const std::vector<float> q_norm = random.floats(d, 0.5, 1.5), k_norm = random.floats(d, 0.5, 1.5);
      Table expected;
      for (int r = 0; r < rows; ++r)
        expected.push_back(reference::qkv_grid_rope(doubles(qkv[r]), doubles(angles[r]), doubles(q_norm), doubles(k_norm), kEpsilon));
      expect_near(kernels.qkv_grid_rope(qkv, angles, q_norm, k_norm), expected, 2e-6);
    }
  };

  "pool takes the mean of cells, with and without a standard"_test = [&] {
    Random random(4);
    const int rows = 6, columns = 9, side = 3;
    for (const int n : {40, 1152}) {
      const FloatRows x = random_rows(random, rows * columns, n);
      const std::vector<float> bias = random.floats(n, -1, 1), factor = random.floats(n, 0.5, 2), none;
      for (const bool standardised : {false, true})
        expect_near(kernels.pool(x, columns, side, 6.3f, standardised ? bias : none, standardised ? factor : none),
                    reference::pool(table_of(x), rows, columns, side, 6.3f, standardised ? doubles(bias) : Vector{}, standardised ? doubles(factor) : Vector{}), 2e-6);
    }
  };

  "layer_norm, and add_norm with and without its second output"_test = [&] {
    Random random(5);
    for (const int n : {8, 33, 1024, 3840, 6912}) {
      const FloatRows x = random_rows(random, 5, n, -1, 4), h = random_rows(random, 5, n);
      const std::vector<float> weight = random.floats(n, 0.5, 1.5), bias = random.floats(n, -1, 1);
      Table expected, sums, both;
      for (const auto& row : x) expected.push_back(reference::layer_norm(doubles(row), doubles(weight), doubles(bias), 1e-5));
      expect_near(kernels.layer_norm(x, weight, bias, 1e-5f), expected, 3e-6);
      for (std::size_t r = 0; r < h.size(); ++r) {
        Vector sum = doubles(h[r]);
        for (int i = 0; i < n; ++i) sum[i] += x[r][i];
        sums.push_back(sum);
        for (const double value : reference::rms_norm(sum, doubles(weight), kEpsilon)) sum.push_back(value);
        both.push_back(std::move(sum));
      }
      expect_near(kernels.add_norm(h, x, weight), both, 2e-6);
      expect_near(kernels.add_norm(h, x, {}), sums, 1e-6);
    }
  };

  "rms_norm without a weight, and residual_norm of a part of its update"_test = [&] {
    Random random(6);
    for (const int n : {96, 640, 1536}) {
      const FloatRows x = random_rows(random, 4, n), h = random_rows(random, 4, n);
      const std::vector<float> weight = random.floats(n, 0.5, 1.5);
      Table norms, residuals;
      for (std::size_t r = 0; r < x.size(); ++r) {
        norms.push_back(reference::rms(doubles(x[r]), kEpsilon));
        residuals.push_back(reference::residual(doubles(h[r]), doubles(x[r]), doubles(weight), 1.0, kEpsilon, 0.5));
      }
      expect_near(kernels.rms(x), norms, 1e-6);
      expect_near(kernels.residual_part(h, x, weight, 0.5f), residuals, 1e-6);
    }
  };
}

inline void test_audio_kernels(const TowerKernels& kernels) {
  using namespace boost::ut;
  using reference::Table;

  "conv_norm_relu halves frames and bands, with zeros around them"_test = [&] {
    Random random(7);
    for (const auto& [frames, bands, inputs, channels] :
         {std::array{1, 8, 1, 8}, {2, 8, 1, 40}, {7, 8, 8, 16}, {6, 16, 24, 8}, {5, 128, 1, 128}, {4, 64, 128, 32}}) {
      const FloatRows x = random_rows(random, frames, bands * inputs), taps = random_rows(random, 9 * inputs, channels, -0.3, 0.3);
      const std::vector<float> norm = random.floats(channels, 0.5, 1.5);
      expect_near(kernels.conv_norm_relu(x, bands, taps, norm), reference::conv_norm_relu(table_of(x), bands, table_of(taps), doubles(norm), kEpsilon), 1e-5);
    }
  };

  "distance_waves are sines, then cosines"_test = [&] {
    for (const int half : {32, 512}) {
      std::vector<float> frequencies;
      for (int i = 0; i < half; ++i) frequencies.push_back(static_cast<float>(std::exp(-i * std::log(10000.0) / (half - 1))));
      Table expected;
      for (int r = 0; r < 13; ++r) expected.push_back(reference::distance_waves(r, frequencies));
      expect_near(kernels.distance_waves(13, frequencies), expected, 1e-6);
    }
  };

  "local_attention sees its window, and less at the beginning"_test = [&] {
    Random random(8);
    for (const auto& [heads, d, window, frames] : {std::array{4, 16, 12, 30}, {8, 128, 13, 25}, {2, 8, 1, 5}, {1, 24, 12, 7}}) {
      const FloatRows qkv = random_rows(random, frames, 3 * heads * d), relative = random_rows(random, window, heads * d);
      const std::vector<float> dim_scale = random.floats(d, -2, 2);
      const reference::LocalAttention shape{heads, d, window, 0.4f, 1.9f, 50.0f};
      expect_near(kernels.local_attention(qkv, relative, dim_scale, shape),
                  reference::local_attention(table_of(qkv), table_of(relative), doubles(dim_scale), shape), 2e-5);
    }
  };

  "glu_conv sees what came before it"_test = [&] {
    Random random(9);
    for (const auto& [n, taps, frames] : {std::array{16, 5, 9}, {40, 5, 3}, {1024, 5, 6}, {8, 1, 2}}) {
      const FloatRows x = random_rows(random, frames, 2 * n), kernel = random_rows(random, taps, n);
      const std::vector<float> norm = random.floats(n, 0.5, 1.5);
      expect_near(kernels.glu_conv(x, kernel, norm), reference::glu_conv(table_of(x), table_of(kernel), doubles(norm), kEpsilon), 5e-6);
    }
  };
}

}  // namespace lapidary::test
