// route, top and moe_combine on the device.
#include <boost/ut.hpp>

#include "metal/products.hpp"
#include "support/moe_cases.hpp"

namespace lapidary::test::moe_test {
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

// A product and a choice of experts as one dispatch of a round are what both are alone.
void expect_together(Random& random, int rows, int outputs, int experts, int used) {
  const RandomMatrix random_matrix(random, kAffine4, outputs, 192);
  const link::Matrix matrix = random_matrix.view();
  const FloatRows x = random_rows(random, rows, matrix.cols), scores = random_rows(random, rows, experts);
  const std::vector<float> expert_scale = random.floats(experts, 0.5, 2);
  Stage product(Op::linear, {.k = matrix.cols, .n = {outputs}}, rows);
  product.in(0, x);
  product.out(0, outputs);
  product.matrix(0, matrix);
  Stage choice(Op::route, {.experts = experts, .experts_used = used}, rows);
  choice.in(0, scores);
  choice.vector(0, expert_scale);
  choice.out(0, used);
  choice.out(1, used);
  run_alone({metal::linear_route(product.ready(), choice.ready())}, rows);
  const RoutedRows routed = route(scores, expert_scale, used, 1);
  expect(std::ranges::equal(product.floats(0), linear(x, {matrix}, NumericClass::round), same_bits)) << rows << "rows";
  expect(choice.ids(0) == routed.ids && std::ranges::equal(choice.floats(1), routed.weights, same_bits)) << rows << "rows";
}

suite<"mixture of experts on the device"> moe_suite = [] {
  "a product and a choice of experts together are what they are alone"_test = [] {
    Random random(8);
    for (int rows = 1; rows <= graph::kMaxVerifyRows; ++rows)
      for (const int outputs : {8, 83}) expect_together(random, rows, outputs, 128, 8);
  };

  // A GPU may have no numbers below the smallest normal one.
  test_route({.route = route, .least_weight = 1.2e-38, .rows = 17});
  test_top({.top = top, .most = 300, .rows = 9});
  test_moe_combine({.moe_combine = moe_combine, .rms_norm = rms_norm, .rows = 9});
};

}  // namespace
}  // namespace lapidary::test::moe_test
