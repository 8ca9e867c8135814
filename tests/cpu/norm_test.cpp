// rms_norm and residual_norm on the CPU.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "support/norm_cases.hpp"

namespace lapidary::test::norm_test {
namespace {

using namespace boost::ut;

FloatRows rms_norm(const FloatRows& x, const std::vector<float>& weight, int parts) {
  const int rows = count_of(x), n = count_of(weight);
  const RowBuffer in(x);
  RowBuffer out(rows, n);
  in_parts(parts, [&](cpu::Part part) { cpu::rms_norm(rows, in.in(), weight.data(), n, kEpsilon, out.out(), part); });
  return out.rows();
}

FloatRows residual_norm(const FloatRows& h, const FloatRows& y, const ResidualNorm& step, int parts) {
  const int rows = count_of(h), n = count_of(h.front());
  RowBuffer residual(h);
  const RowBuffer update(y);
  std::vector<RowBuffer> buffers(step.norms.size(), RowBuffer(rows, n));
  std::vector<cpu::NormOutput> outputs;
  for (int o = 0; o < count_of(step.norms); ++o)
    outputs.push_back({step.norms[o].data(), o + 1 == step.scaled_output ? step.scale : 1.0f, buffers[o].out()});
  in_parts(parts, [&](cpu::Part part) {
    cpu::residual_norm(rows, residual.out(), update.in(), step.post_norm.data(), step.scalar, n, kEpsilon, outputs, part);
  });
  FloatRows all = residual.rows();
  for (const RowBuffer& buffer : buffers) append_rows(all, buffer.rows());
  return all;
}

const NormKernels kKernels{.rms_norm = rms_norm, .residual_norm = residual_norm, .rows = 67};

suite<"norms"> norm_suite = [] {
  test_rms_norm(kKernels);
  test_residual_norm(kKernels);
};

}  // namespace
}  // namespace lapidary::test::norm_test
