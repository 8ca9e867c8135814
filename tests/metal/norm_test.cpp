// rms_norm and residual_norm on the device.
#include <boost/ut.hpp>

#include "metal/stage.hpp"
#include "support/norm_cases.hpp"

namespace lapidary::test::norm_test {
namespace {

using namespace boost::ut;
using graph::Op;

FloatRows rms_norm(const FloatRows& x, const std::vector<float>& weight, int) {
  const int n = count_of(weight);
  Stage stage(Op::rms_norm, {.n = {n}, .epsilon = kEpsilon}, count_of(x));
  stage.in(0, x);
  stage.vector(0, weight);
  stage.out(0, n);
  stage.play();
  return stage.floats(0);
}

FloatRows residual_norm(const FloatRows& h, const FloatRows& y, const ResidualNorm& step, int) {
  const int n = count_of(h.front()), outputs = count_of(step.norms);
  const graph::Dims dims{.n = {n}, .scaled_output = step.scaled_output, .scale = step.scale, .epsilon = kEpsilon};
  Stage stage(Op::residual_norm, dims, count_of(h));
  stage.out(0, h);
  stage.in_place(0, 0);
  stage.in(1, y);
  stage.vector(0, step.post_norm);
  if (step.scalar) stage.vector(1, std::vector<float>{*step.scalar});
  for (int o = 0; o < outputs; ++o) {
    stage.vector(2 + o, step.norms[o]);
    stage.out(1 + o, n);
  }
  stage.play();
  FloatRows all = stage.floats(0);
  for (int o = 0; o < outputs; ++o) append_rows(all, stage.floats(1 + o));
  return all;
}

const NormKernels kKernels{.rms_norm = rms_norm, .residual_norm = residual_norm, .rows = 17};

suite<"norms on the device"> norm_suite = [] {
  test_rms_norm(kKernels);
  test_residual_norm(kKernels);

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
    for (int r = 0; r < 3; ++r) expect(same_bits(got[r], rms_norm({x[first + r]}, weight, 1).front())) << "row" << r;
    expect(std::all_of(got[3].begin(), got[3].end(), is_untouched));
  };
};

}  // namespace
}  // namespace lapidary::test::norm_test
