// expert_gelu_mul and expert_linear of every storage.
#include <boost/ut.hpp>

#include "metal/products.hpp"

namespace lapidary::test::experts_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

constexpr NumericClass kRound = NumericClass::round, kPrompt = NumericClass::prompt;

graph::Dims expert_dims(const link::Matrix& weight, int used) {
  return {.k = weight.cols, .n = {weight.rows}, .experts = weight.experts, .experts_used = used};
}

FloatRows expert_gelu_mul(const FloatRows& x, const IdRows& ids, const link::Matrix& gate, const link::Matrix& up,
                          NumericClass numeric) {
  const int used = static_cast<int>(ids.front().size());
  Stage stage(graph::Op::expert_gelu_mul, expert_dims(gate, used), count_of(x), numeric);
  stage.in(0, x);
  stage.in_ids(1, ids);
  stage.out(0, used * gate.rows);
  stage.matrix(0, gate);
  stage.matrix(1, up);
  stage.play();
  return stage.floats(0);
}

FloatRows expert_linear(const FloatRows& x, const IdRows& ids, const link::Matrix& weight, NumericClass numeric) {
  const int used = static_cast<int>(ids.front().size());
  Stage stage(graph::Op::expert_linear, expert_dims(weight, used), count_of(x), numeric);
  stage.in(0, x);
  stage.in_ids(1, ids);
  stage.out(0, used * weight.rows);
  stage.matrix(0, weight);
  stage.play();
  return stage.floats(0);
}

const ProductKernels kProducts = products_of(kRound);
const ExpertKernels kExperts{
    [](const FloatRows& x, const IdRows& ids, const link::Matrix& gate, const link::Matrix& up, int) {
      return expert_gelu_mul(x, ids, gate, up, kRound);
    },
    [](const FloatRows& x, const IdRows& ids, const link::Matrix& weight, int) {
      return expert_linear(x, ids, weight, kRound);
    },
    kProducts};

suite<"experts on the device"> expert_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("expert_gelu_mul and expert_linear of " + label(storage) +
         " are near their definitions and equal products with one matrix to the bit") = [&storage] {
      Random random(1);
      for (const int k : {192, 128}) {
        if (!fits(storage, k)) continue;
        expect_expert_gelu_mul(random, kExperts, storage, storage, k, 11, 7, {6, 0, 3});
        expect_expert_linear(random, kExperts, storage, k, 11, 7, {6, 0, 3});
      }
    };

    test("experts of " + label(storage) + " give a row the same bits, shared with other rows or not") = [&storage] {
      Random random(2);
      expect_experts_alone(random, kExperts, storage, 128, 9, {12, kRoundWidths});
    };
  }

  "experts are near their definitions at the widths of the published model, 8 of 128"_test = [] {
    Random random(3);
    for (const Storage& storage : main_storages()) {
      const Ids ids = {127, 0, 64, 3, 99, 31, 32, 7};
      expect_expert_gelu_mul(random, kExperts, storage, storage, 2816, 4, 128, ids);
      expect_expert_linear(random, kExperts, storage, 704, 6, 128, ids);
    }
  };

  "expert_gelu_mul takes two weights of different storages"_test = [] {
    Random random(6);
    expect_expert_gelu_mul(random, kExperts, kAffine4, kPlain, 192, 11, 7, {4, 1, 6});
    expect_expert_gelu_mul(random, kExperts, kPlain, kAffine4, 192, 11, 7, {4, 1, 6});
  };

  "rows of a prompt share experts in blocks of 8 and have the bits of rows of a round"_test = [] {
    Random random(4);
    const int n = 9, k = 192, rows = 70, used = 8, experts = 20;
    const RandomMatrix random_gate(random, kAffine4, n, k, experts), random_up(random, kAffine8, n, k, experts);
    const link::Matrix gate = random_gate.view(), up = random_up.view();
    const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), many = random_rows(random, rows, k * used);
    IdRows ids;
    for (int r = 0; r < rows; ++r) ids.push_back(random_ids(random, used, experts));
    for (const int width : {70, 33, 9, 8, 5, 1}) {
      const std::vector<int> numbers = random.pick(width, rows);
      const FloatRows gated = expert_gelu_mul(gather(x, numbers), gather(ids, numbers), gate, up, kPrompt);
      const FloatRows plain = expert_linear(gather(many, numbers), gather(ids, numbers), up, kPrompt);
      int different = 0;
      for (int r = 0; r < width; ++r) {
        const int row = numbers[r];
        different += !same_bits(gated[r], expert_gelu_mul({x[row]}, {ids[row]}, gate, up, kRound).front());
        different += !same_bits(plain[r], expert_linear({many[row]}, {ids[row]}, up, kRound).front());
      }
      expect(eq(different, 0)) << "rows differ at width" << width;
    }
  };

  "a prompt chunk with experts may have fewer rows than it was recorded for"_test = [] {
    Random random(5);
    const int n = 4, k = 64, recorded = 19, rows = 10, experts = 7, used = 3;
    const RandomMatrix random_weight(random, kAffine4, n, k, experts);
    const link::Matrix weight = random_weight.view();
    const FloatRows x = random_rows(random, recorded, k * used);
    IdRows ids;
    for (int r = 0; r < recorded; ++r) ids.push_back(random_ids(random, used, experts));
    Stage stage(graph::Op::expert_linear, expert_dims(weight, used), recorded, kPrompt);
    stage.in(0, x);
    stage.in_ids(1, ids);
    stage.out(0, used * n);
    stage.matrix(0, weight);
    stage.run().row_count = rows;
    stage.play();
    const FloatRows y = stage.floats(0);
    for (int r = 0; r < recorded; ++r)
      expect(r < rows ? same_bits(y[r], expert_linear({x[r]}, {ids[r]}, weight, kPrompt).front())
                      : std::ranges::all_of(y[r], is_untouched))
          << "row" << r;
  };
};

}  // namespace
}  // namespace lapidary::test::experts_test
