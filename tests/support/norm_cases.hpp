// rms_norm and residual_norm of a backend, at every width of the published models.
#pragma once

#include "reference/norm.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

struct ResidualNorm {
  std::vector<float> post_norm;
  const float* scalar = nullptr;
  FloatRows norms;        // of the outputs
  int scaled_output = 0;  // from 1 on, 0 = none
  float scale = 1.0f;
};

struct NormKernels {
  std::function<FloatRows(const FloatRows& x, const std::vector<float>& weight, int parts)> rms_norm;
  // Returns h | out1 | out2 | ... of each row.
  std::function<FloatRows(const FloatRows& h, const FloatRows& y, const ResidualNorm& step, int parts)> residual_norm;
  int rows;  // to compute together
};

inline const std::vector<int> kNormWidths = {1536, 2560, 3840, 2816, 5376, 6145, 256, 512, 128, 64, 32, 192, 100, 7};

// A norm is a sum of squares, all positive, over at least 4 lanes, then three or four roundings: relative to the value.
inline constexpr double kNormError = 1e-6;

inline std::vector<double> norm_errors(std::vector<double> normed) {
  for (double& value : normed) value = kNormError * std::abs(value);
  return normed;
}

inline void test_rms_norm(const NormKernels& kernels) {
  using namespace boost::ut;

  "rms_norm is near its definition, for small rows, large rows and rows of zeros"_test = [&] {
    Random random(1);
    for (const int n : kNormWidths)
      for (const double size : {1.0, 1e-4, 1e6, 0.0}) {
        const auto weight = random.floats(n, -3, 3);
        const FloatRows x = random_rows(random, 2, n, -size, size);
        const FloatRows y = kernels.rms_norm(x, weight, 1);
        for (int r = 0; r < 2; ++r) {
          const auto expected = reference::rms_norm(doubles(x[r]), doubles(weight), kEpsilon);
          expect(worst_error(y[r], expected, norm_errors(expected)) <= 1.0_d) << "width" << n << "values up to" << size;
        }
      }
  };

  "rms_norm gives a row the same bits among any others"_test = [&] {
    Random random(2);
    for (const int n : {1536, 192, 7}) {
      const auto weight = random.floats(n, -3, 3);
      const FloatRows x = random_rows(random, kernels.rows, n);
      expect_rows_independent(random, kernels.rows, [&](const std::vector<int>& numbers, int parts) {
        return kernels.rms_norm(gather(x, numbers), weight, parts);
      });
    }
  };
}

inline void expect_residual_norm(Random& random, const NormKernels& kernels, int n, int outputs, int scaled_output,
                                 const float* scalar) {
  const ResidualNorm step{random.floats(n, -2, 2), scalar, random_rows(random, outputs, n), scaled_output, 0.018844459f};
  const FloatRows h = random_rows(random, 2, n, -50, 50), y = random_rows(random, 2, n);
  const FloatRows got = kernels.residual_norm(h, y, step, 1);
  for (int r = 0; r < 2; ++r) {
    const double factor = scalar ? *scalar : 1.0;
    const auto update = reference::rms_norm(doubles(y[r]), doubles(step.post_norm), kEpsilon);
    auto expected = reference::residual(doubles(h[r]), doubles(y[r]), doubles(step.post_norm), factor, kEpsilon);
    std::vector<double> allowed;
    for (int i = 0; i < n; ++i) allowed.push_back(kNormError * (std::abs(h[r][i]) + std::abs(update[i])) * factor);
    const auto stream = expected;
    const auto inverse_rms = reference::rms(stream, kEpsilon);
    for (int o = 0; o < outputs; ++o) {
      const double scale = o + 1 == scaled_output ? step.scale : 1.0;
      const auto normed = reference::rms_norm(stream, doubles(step.norms[o]), kEpsilon);
      for (int i = 0; i < n; ++i) {
        expected.push_back(normed[i] * scale);
        // Its own rounding, and that of the stream it starts from.
        const double stream_share = stream[i] == 0.0 ? 0.0 : allowed[i] * std::abs(inverse_rms[i] / stream[i]);
        const double factors = std::abs(scale * step.norms[o][i]);
        allowed.push_back((2 * kNormError * std::abs(inverse_rms[i]) + stream_share) * factors);
      }
    }
    boost::ut::expect(worst_error(got[r], expected, allowed) <= 1.0)
        << "width" << n << "with" << outputs << "outputs, scaled is" << scaled_output;
  }
}

inline void test_residual_norm(const NormKernels& kernels) {
  using namespace boost::ut;

  "residual_norm is near its definition with 0 to 3 outputs, with and without a layer scalar"_test = [&] {
    Random random(3);
    const float layer_scalar = 0.37f;
    for (const int n : kNormWidths)
      for (const int outputs : {0, 1, 2, 3})
        for (int scaled_output = 0; scaled_output <= outputs; ++scaled_output)
          for (const float* scalar : {static_cast<const float*>(nullptr), &layer_scalar})
            expect_residual_norm(random, kernels, n, outputs, scaled_output, scalar);
  };

  "the outputs of residual_norm are rms_norm of the new residual stream, to the bit"_test = [&] {
    Random random(4);
    for (const int n : {1536, 2816, 100}) {
      const float scalar = 1.7f;
      const ResidualNorm step{random.floats(n, -2, 2), &scalar, random_rows(random, 3, n)};
      for (const auto& row : kernels.residual_norm(random_rows(random, 3, n), random_rows(random, 3, n), step, 1)) {
        const std::vector<float> stream(row.begin(), row.begin() + n);
        for (int o = 0; o < 3; ++o) {
          const std::vector<float> out(row.begin() + (o + 1) * n, row.begin() + (o + 2) * n);
          expect(same_bits(out, kernels.rms_norm({stream}, step.norms[o], 1).front())) << "output" << o << "of width" << n;
        }
      }
    }
  };

  "residual_norm gives a row the same bits among any others"_test = [&] {
    Random random(5);
    for (const int n : {1536, 192, 7}) {
      const float scalar = 0.9f;
      const ResidualNorm step{random.floats(n, -2, 2), &scalar, random_rows(random, 3, n), 2, 0.5f};
      const FloatRows h = random_rows(random, kernels.rows, n), y = random_rows(random, kernels.rows, n);
      expect_rows_independent(random, kernels.rows, [&](const std::vector<int>& numbers, int parts) {
        return kernels.residual_norm(gather(h, numbers), gather(y, numbers), step, parts);
      });
    }
  };
}

}  // namespace lapidary::test
