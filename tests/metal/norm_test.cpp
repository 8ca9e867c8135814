// rms_norm and residual_norm on the device, at every width of the published models.
#include <boost/ut.hpp>

#include "metal/stage.hpp"
#include "reference/norm.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using graph::Op;

const std::vector<int> kWidths = {1536, 2560, 3840, 2816, 5376, 6145, 256, 512, 128, 64, 32, 192, 100, 7};

// A norm is a sum of squares, all positive, over at least 32 lanes, then four roundings: relative to the value.
constexpr double kNormError = 1e-6;

std::vector<double> norm_errors(std::vector<double> normed) {
  for (double& value : normed) value = kNormError * std::abs(value);
  return normed;
}

FloatRows rms_norm(const FloatRows& x, const std::vector<float>& weight) {
  const int n = static_cast<int>(weight.size());
  Stage stage(Op::rms_norm, {.n = {n}, .epsilon = kEpsilon}, static_cast<int>(x.size()));
  stage.in(0, x);
  stage.vector(0, weight);
  stage.out(0, n);
  stage.play();
  return stage.floats(0);
}

suite<"metal rms_norm"> rms_norm_suite = [] {
  "rms_norm is near its definition, for small rows, large rows and rows of zeros"_test = [] {
    Random random(1);
    for (const int n : kWidths)
      for (const double size : {1.0, 1e-4, 1e6, 0.0}) {
        const auto weight = random.floats(n, -3, 3);
        const FloatRows x = random_rows(random, 2, n, -size, size);
        const FloatRows y = rms_norm(x, weight);
        for (int r = 0; r < 2; ++r) {
          const auto expected = reference::rms_norm(doubles(x[r]), doubles(weight), kEpsilon);
          expect(worst_error(y[r], expected, norm_errors(expected)) <= 1.0_d) << "width" << n << "values up to" << size;
        }
      }
  };

  "rms_norm gives a row the same bits among any others"_test = [] {
    Random random(2);
    for (const int n : {1536, 192, 7}) {
      const auto weight = random.floats(n, -3, 3);
      const FloatRows x = random_rows(random, 17, n);
      expect_rows_independent(random, 17, [&](const std::vector<int>& numbers, int) {
        return rms_norm(gather(x, numbers), weight);
      });
    }
  };

  "rms_norm takes the rows of the output window, and no more than there are"_test = [] {
    Random random(3);
    const int n = 96, first = 3;
    const auto weight = random.floats(n, -3, 3);
    const FloatRows x = random_rows(random, 8, n);
    Stage stage(Op::rms_norm, {.n = {n}, .epsilon = kEpsilon}, 4);
    stage.in(0, x);
    stage.vector(0, weight);
    stage.out(0, n);
    stage.params().rows = metal::layout::kOutputRows;
    stage.params().in[0].windowed = 1;
    stage.run().row_count = 8;
    stage.run().first_output = first;
    stage.run().output_count = 3;
    stage.play();
    const FloatRows got = stage.floats(0);
    for (int r = 0; r < 3; ++r) expect(same_bits(got[r], rms_norm({x[first + r]}, weight).front())) << "row" << r;
    expect(std::all_of(got[3].begin(), got[3].end(), is_untouched));
  };
};

struct ResidualNorm {
  std::vector<float> post_norm;
  const float* scalar = nullptr;
  FloatRows norms;           // of the outputs
  int scaled_output = 0;
  float scale = 0.0f;
};

// Returns h | out1 | out2 | ... of each row.
FloatRows residual_norm(const FloatRows& h, const FloatRows& y, const ResidualNorm& step) {
  const int rows = static_cast<int>(h.size()), n = static_cast<int>(h.front().size());
  const graph::Dims dims{.n = {n}, .scaled_output = step.scaled_output, .scale = step.scale, .epsilon = kEpsilon};
  Stage stage(Op::residual_norm, dims, rows);
  stage.out(0, h);
  stage.in_place(0, 0);
  stage.in(1, y);
  stage.vector(0, step.post_norm);
  if (step.scalar) stage.vector(1, std::vector<float>{*step.scalar});
  stage.params().has_scalar = step.scalar != nullptr;
  const int outputs = static_cast<int>(step.norms.size());
  for (int o = 0; o < outputs; ++o) {
    stage.vector(2 + o, step.norms[static_cast<std::size_t>(o)]);
    stage.out(1 + o, n);
  }
  stage.play();
  FloatRows all = stage.floats(0);
  for (int o = 0; o < outputs; ++o) {
    const FloatRows out = stage.floats(1 + o);
    for (int r = 0; r < rows; ++r) all[r].insert(all[r].end(), out[r].begin(), out[r].end());
  }
  return all;
}

suite<"metal residual_norm"> residual_norm_suite = [] {
  "residual_norm is near its definition with 0 to 3 outputs, with and without a layer scalar"_test = [] {
    Random random(4);
    const float layer_scalar = 0.37f;
    for (const int n : kWidths)
      for (const int outputs : {0, 1, 2, 3})
        for (const float* scalar : {static_cast<const float*>(nullptr), &layer_scalar}) {
          const FloatRows norms = random_rows(random, outputs, n);
          const ResidualNorm step{random.floats(n, -2, 2), scalar, norms, outputs, 0.018844459f};
          const FloatRows h = random_rows(random, 2, n, -50, 50), y = random_rows(random, 2, n);
          const FloatRows got = residual_norm(h, y, step);
          for (int r = 0; r < 2; ++r) {
            const double factor = scalar ? *scalar : 1.0;
            const auto update = reference::rms_norm(doubles(y[r]), doubles(step.post_norm), kEpsilon);
            auto expected = reference::residual(doubles(h[r]), doubles(y[r]), doubles(step.post_norm), factor, kEpsilon);
            std::vector<double> allowed;
            for (int i = 0; i < n; ++i) allowed.push_back(kNormError * (std::abs(h[r][i]) + std::abs(update[i])) * factor);
            const auto stream = expected;
            const auto inverse_rms = reference::rms(stream, kEpsilon);
            for (int o = 0; o < outputs; ++o) {
              const double scale = o + 1 == step.scaled_output ? step.scale : 1.0;
              const auto normed = reference::rms_norm(stream, doubles(step.norms[o]), kEpsilon);
              for (int i = 0; i < n; ++i) {
                expected.push_back(normed[i] * scale);
                // Its own rounding, and that of the stream it starts from.
                const double stream_share = stream[i] == 0.0 ? 0.0 : allowed[i] * std::abs(inverse_rms[i] / stream[i]);
                const double factors = std::abs(scale * step.norms[o][i]);
                allowed.push_back((2 * kNormError * std::abs(inverse_rms[i]) + stream_share) * factors);
              }
            }
            expect(worst_error(got[r], expected, allowed) <= 1.0_d) << "width" << n << "with" << outputs << "outputs";
          }
        }
  };

  "the outputs of residual_norm are rms_norm of the new residual stream, to the bit"_test = [] {
    Random random(5);
    for (const int n : {1536, 2816, 100}) {
      const float scalar = 1.7f;
      const ResidualNorm step{random.floats(n, -2, 2), &scalar, random_rows(random, 3, n)};
      for (const auto& row : residual_norm(random_rows(random, 3, n), random_rows(random, 3, n), step)) {
        const std::vector<float> stream(row.begin(), row.begin() + n);
        for (int o = 0; o < 3; ++o) {
          const std::vector<float> out(row.begin() + (o + 1) * n, row.begin() + (o + 2) * n);
          expect(same_bits(out, rms_norm({stream}, step.norms[o]).front())) << "output" << o << "of width" << n;
        }
      }
    }
  };

  "residual_norm gives a row the same bits among any others"_test = [] {
    Random random(6);
    for (const int n : {1536, 192, 7}) {
      const float scalar = 0.9f;
      const ResidualNorm step{random.floats(n, -2, 2), &scalar, random_rows(random, 3, n), 2, 0.5f};
      const FloatRows h = random_rows(random, 17, n), y = random_rows(random, 17, n);
      expect_rows_independent(random, 17, [&](const std::vector<int>& numbers, int) {
        return residual_norm(gather(h, numbers), gather(y, numbers), step);
      });
    }
  };
};

}  // namespace
}  // namespace lapidary::test
