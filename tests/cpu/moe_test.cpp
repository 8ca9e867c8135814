// route, expert_gelu_mul, expert_linear and moe_combine on the CPU.
#include <boost/ut.hpp>

#include "cpu/products.hpp"
#include "support/moe_cases.hpp"

namespace lapidary::test::moe_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

RoutedRows route(const FloatRows& scores, const std::vector<float>& expert_scale, int used, int parts) {
  const int rows = count_of(scores), experts = count_of(expert_scale);
  const RowBuffer in(scores);
  IdBuffer ids(rows, used);
  RowBuffer weights(rows, used);
  in_parts(parts, [&](cpu::Part part) {
    cpu::route(rows, in.in(), expert_scale.data(), experts, used, ids.out(), weights.out(), part);
  });
  return {ids.rows(), weights.rows()};
}

FloatRows expert_gelu_mul(const FloatRows& x, const IdRows& ids, const link::Matrix& gate, const link::Matrix& up,
                          int parts) {
  const int rows = count_of(x), used = count_of(ids.front());
  const RowBuffer in(x);
  const IdBuffer picked(ids);
  RowBuffer out(rows, used * gate.rows);
  in_parts(parts, [&](cpu::Part part) {
    cpu::expert_gelu_mul(best_products(), rows, in.in(), picked.in(), used, gate, up, out.out(), part);
  });
  return out.rows();
}

FloatRows expert_linear(const FloatRows& x, const IdRows& ids, const link::Matrix& weight, int parts) {
  const int rows = count_of(x), used = count_of(ids.front());
  const RowBuffer in(x);
  const IdBuffer picked(ids);
  RowBuffer out(rows, used * weight.rows);
  in_parts(parts, [&](cpu::Part part) {
    cpu::expert_linear(best_products(), rows, in.in(), picked.in(), used, weight, out.out(), part);
  });
  return out.rows();
}

FloatRows moe_combine(const CombineRows& all, const Combine& step, bool with_next, int parts) {
  const int rows = count_of(all.h), n = count_of(step.sum);
  RowBuffer h(all.h), next(rows, n);
  const RowBuffer dense(all.dense), experts(all.experts), weights(all.weights);
  const cpu::MoeNorms norms{step.dense.data(), step.experts.data(), step.sum.data(), &step.scalar,
                            with_next ? step.next.data() : nullptr};
  in_parts(parts, [&](cpu::Part part) {
    cpu::moe_combine(rows, h.out(), dense.in(), experts.in(), weights.in(), count_of(all.weights[0]), norms, n, kEpsilon,
                     with_next ? next.out() : cpu::Out{}, part);
  });
  FloatRows result = h.rows();
  if (with_next) append_rows(result, next.rows());
  return result;
}

FloatRows rms_norm(const FloatRows& x, const std::vector<float>& weight) {
  const RowBuffer in(x);
  RowBuffer out(count_of(x), count_of(weight));
  cpu::rms_norm(count_of(x), in.in(), weight.data(), count_of(weight), kEpsilon, out.out(), {});
  return out.rows();
}

const ExpertKernels kExperts{expert_gelu_mul, expert_linear, kProducts};

suite<"mixture of experts"> moe_suite = [] {
  test_route({.route = route, .least_weight = 1e-42, .rows = 67});
  test_moe_combine({.moe_combine = moe_combine, .rms_norm = rms_norm, .rows = 67});

  for (const Storage& storage : all_storages()) {
    test("expert_gelu_mul of " + label(storage) +
         " is near its definition and equals linear_gelu_mul to the bit") = [&storage] {
      Random random(4);
      for (const int k : {2816, 192})
        if (fits(storage, k)) expect_expert_gelu_mul(random, kExperts, storage, storage, k, 11, 7, {6, 0, 3});
    };

    test("expert_linear of " + label(storage) + " is near its definition and equals linear to the bit") = [&storage] {
      Random random(5);
      for (const int k : {704, 64, 128})
        if (fits(storage, k)) expect_expert_linear(random, kExperts, storage, k, 11, 7, {6, 0, 3});
    };

    test("experts of " + label(storage) + " give a row the same bits, shared with other rows or not") = [&storage] {
      Random random(6);
      expect_experts_alone(random, kExperts, storage, 256, 9, all_company(67));
    };
  }

  "experts give a row the same bits in a chunk of hundreds of rows"_test = [] {
    Random random(7);
    expect_experts_alone(random, kExperts, kAffine4, 64, 8, all_company(259));
  };
};

}  // namespace
}  // namespace lapidary::test::moe_test
