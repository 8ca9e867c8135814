// route, top and moe_combine on the device.
#include <boost/ut.hpp>

#include "metal/stage.hpp"
#include "support/moe_cases.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using graph::Op;

RoutedRows route(const FloatRows& scores, const std::vector<float>& expert_scale, int used, int) {
  Stage stage(Op::route, {.experts = count_of(expert_scale), .experts_used = used}, count_of(scores));
  stage.in(0, scores);
  stage.vector(0, expert_scale);
  stage.out(0, used);
  stage.out(1, used);
  stage.play();
  return {stage.ids(0), stage.floats(1)};
}

IdRows top(const FloatRows& scores, int used, int) {
  Stage stage(Op::top, {.experts = count_of(scores.front()), .experts_used = used}, count_of(scores));
  stage.in(0, scores);
  stage.out(0, used);
  stage.play();
  return stage.ids(0);
}

FloatRows moe_combine(const CombineRows& rows, const Combine& step, bool with_next, int) {
  const int n = count_of(step.sum), used = count_of(rows.weights[0]);
  Stage stage(Op::moe_combine, {.n = {n}, .experts_used = used, .epsilon = kEpsilon}, count_of(rows.h));
  stage.out(0, rows.h);
  stage.in_place(0, 0);
  stage.in(1, rows.dense);
  stage.in(2, rows.experts);
  stage.in(3, rows.weights);
  stage.vector(0, step.dense);
  stage.vector(1, step.experts);
  stage.vector(2, step.sum);
  stage.vector(3, std::vector<float>{step.scalar});
  if (with_next) {
    stage.vector(4, step.next);
    stage.out(1, n);
  }
  stage.play();
  FloatRows all = stage.floats(0);
  if (with_next) append_rows(all, stage.floats(1));
  return all;
}

FloatRows rms_norm(const FloatRows& x, const std::vector<float>& weight) {
  Stage stage(Op::rms_norm, {.n = {count_of(weight)}, .epsilon = kEpsilon}, count_of(x));
  stage.in(0, x);
  stage.vector(0, weight);
  stage.out(0, count_of(weight));
  stage.play();
  return stage.floats(0);
}

suite<"mixture of experts on the device"> moe_suite = [] {
  // A GPU may have no numbers below the smallest normal one.
  test_route({.route = route, .least_weight = 1.2e-38, .rows = 17});
  test_top({.top = top, .most = 300, .rows = 9});
  test_moe_combine({.moe_combine = moe_combine, .rms_norm = rms_norm, .rows = 9});
};

}  // namespace
}  // namespace lapidary::test
