// rms_norm and residual_norm at every width of the published models.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "reference/norm.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;

const std::vector<int> kWidths = {1536, 2560, 3840, 2816, 5376, 256, 512, 128, 64, 32, 192, 100, 7};

// A norm is a sum of squares, all positive, over at least 4 lanes, then three roundings: relative to the value.
constexpr double kNormError = 1e-6;

std::vector<double> norm_errors(std::vector<double> normed) {
  for (double& value : normed) value = kNormError * std::abs(value);
  return normed;
}

FloatRows rms_norm(const FloatRows& x, const std::vector<float>& weight, int parts = 1) {
  const int rows = static_cast<int>(x.size()), n = static_cast<int>(weight.size());
  const RowBuffer in(x);
  RowBuffer out(rows, n);
  in_parts(parts, [&](cpu::Part part) { cpu::rms_norm(rows, in.in(), weight.data(), n, kEpsilon, out.out(), part); });
  return out.rows();
}

suite<"rms_norm"> rms_norm_suite = [] {
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
      const FloatRows x = random_rows(random, 67, n);
      expect_rows_independent(random, 67, [&](const std::vector<int>& numbers, int parts) {
        return rms_norm(gather(x, numbers), weight, parts);
      });
    }
  };
};

struct ResidualNorm {
  std::vector<float> post_norm;
  const float* scalar = nullptr;
  // Of the outputs.
  FloatRows norms;
  std::vector<float> factors;
};

// Returns h | out1 | out2 | ... of each row.
FloatRows residual_norm(const FloatRows& h, const FloatRows& y, const ResidualNorm& step, int parts = 1) {
  const int rows = static_cast<int>(h.size()), n = static_cast<int>(h.front().size());
  RowBuffer residual(h);
  const RowBuffer update(y);
  std::vector<RowBuffer> buffers(step.norms.size(), RowBuffer(rows, n));
  std::vector<cpu::NormOutput> outputs;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    outputs.push_back({step.norms[i].data(), step.factors[i], buffers[i].out()});
  in_parts(parts, [&](cpu::Part part) {
    cpu::residual_norm(rows, residual.out(), update.in(), step.post_norm.data(), step.scalar, n, kEpsilon, outputs,
                       part);
  });
  FloatRows all = residual.rows();
  for (const RowBuffer& buffer : buffers) {
    const FloatRows out = buffer.rows();
    for (int r = 0; r < rows; ++r) all[r].insert(all[r].end(), out[r].begin(), out[r].end());
  }
  return all;
}

suite<"residual_norm"> residual_norm_suite = [] {
  "residual_norm is near its definition with 0 to 3 outputs, with and without a layer scalar"_test = [] {
    Random random(3);
    const float layer_scalar = 0.37f;
    for (const int n : kWidths)
      for (const int outputs : {0, 1, 2, 3})
        for (const float* scalar : {static_cast<const float*>(nullptr), &layer_scalar}) {
          const FloatRows norms = random_rows(random, outputs, n);
          const ResidualNorm step{random.floats(n, -2, 2), scalar, norms, {1.0f, 0.018844459f, 1.0f}};
          const FloatRows h = random_rows(random, 2, n, -50, 50), y = random_rows(random, 2, n);
          const FloatRows got = residual_norm(h, y, step);
          for (int r = 0; r < 2; ++r) {
            const double factor = scalar ? *scalar : 1.0;
            const auto update = reference::rms_norm(doubles(y[r]), doubles(step.post_norm), kEpsilon);
            auto expected =
                reference::residual(doubles(h[r]), doubles(y[r]), doubles(step.post_norm), factor, kEpsilon);
            std::vector<double> allowed;
            for (int i = 0; i < n; ++i)
              allowed.push_back(kNormError * (std::abs(h[r][i]) + std::abs(update[i])) * factor);
            const auto stream = expected;
            const auto inverse_rms = reference::rms(stream, kEpsilon);
            for (int o = 0; o < outputs; ++o) {
              const auto normed = reference::rms_norm(stream, doubles(step.norms[o]), kEpsilon);
              for (int i = 0; i < n; ++i) {
                const double scale = std::abs(step.factors[o] * step.norms[o][i]);
                expected.push_back(normed[i] * step.factors[o]);
                // Its own rounding, and that of the stream it starts from.
                const double stream_share = stream[i] == 0.0 ? 0.0 : allowed[i] * std::abs(inverse_rms[i] / stream[i]);
                allowed.push_back((2 * kNormError * std::abs(inverse_rms[i]) + stream_share) * scale);
              }
            }
            expect(worst_error(got[r], expected, allowed) <= 1.0_d) << "width" << n << "with" << outputs << "outputs";
          }
        }
  };

  "the outputs of residual_norm are rms_norm of the new residual stream, to the bit"_test = [] {
    Random random(4);
    for (const int n : {1536, 2816, 100}) {
      const float scalar = 1.7f;
      const ResidualNorm step{random.floats(n, -2, 2), &scalar, random_rows(random, 3, n), {1.0f, 1.0f, 1.0f}};
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
    Random random(5);
    for (const int n : {1536, 192, 7}) {
      const float scalar = 0.9f;
      const ResidualNorm step{random.floats(n, -2, 2), &scalar, random_rows(random, 3, n), {1.0f, 0.5f, 1.0f}};
      const FloatRows h = random_rows(random, 67, n), y = random_rows(random, 67, n);
      expect_rows_independent(random, 67, [&](const std::vector<int>& numbers, int parts) {
        return residual_norm(gather(h, numbers), gather(y, numbers), step, parts);
      });
    }
  };
};

}  // namespace
}  // namespace lapidary::test
