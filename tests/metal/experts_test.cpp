// expert_gelu_mul and expert_linear of every storage.
#include <boost/ut.hpp>

#include "metal/products.hpp"
#include "reference/moe.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using IdRows = std::vector<std::vector<std::int32_t>>;

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

// One expert as a matrix of its own.
link::Matrix expert_of(link::Matrix matrix, int expert) {
  matrix.values += expert * matrix.expert_bytes;
  if (matrix.scales) matrix.scales += expert * matrix.scale_expert_bytes;
  if (matrix.biases) matrix.biases += expert * matrix.scale_expert_bytes;
  matrix.experts = 0;
  return matrix;
}

constexpr int kExperts = 7, kUsed = 3;

std::vector<std::int32_t> pick_experts(Random& random, int used, int experts) {
  const auto picked = random.pick(used, experts);
  return {picked.begin(), picked.end()};
}

void append(std::vector<float>& to, const std::vector<float>& values) { to.insert(to.end(), values.begin(), values.end()); }

// One row that picks `ids`: near the definition, and to the bit what linear_gelu_mul makes of the experts.
void expect_expert_gelu_mul(Random& random, const Storage& gate_storage, const Storage& up_storage, int k, int n,
                            int experts, const std::vector<std::int32_t>& ids) {
  const RandomMatrix random_gate(random, gate_storage, n, k, experts), random_up(random, up_storage, n, k, experts);
  const link::Matrix gate = random_gate.view(), up = random_up.view();
  const FloatRows x = random_rows(random, 1, k, -0.2, 0.2);
  const auto got = expert_gelu_mul(x, {ids}, gate, up, kRound).front();
  std::vector<reference::Table> gates(experts), ups(experts);
  std::vector<double> allowed;
  std::vector<float> by_matrix;
  for (const std::int32_t id : ids) {
    gates[id] = reference::dequantise(gate, id);
    ups[id] = reference::dequantise(up, id);
    const auto errors = gelu_mul_errors(
        reference::linear(gates[id], doubles(x[0])), product_errors(reference::magnitudes(gate, id), x[0]),
        reference::linear(ups[id], doubles(x[0])), product_errors(reference::magnitudes(up, id), x[0]));
    allowed.insert(allowed.end(), errors.begin(), errors.end());
    append(by_matrix, linear_gelu_mul(x, expert_of(gate, id), expert_of(up, id), kRound).front());
  }
  expect(worst_error(got, reference::expert_gelu_mul(gates, ups, doubles(x[0]), ids), allowed) <= 1.0_d) << "K =" << k;
  expect(same_bits(got, by_matrix)) << "K =" << k;
}

// Likewise of expert_linear.
void expect_expert_linear(Random& random, const Storage& storage, int k, int n, int experts,
                          const std::vector<std::int32_t>& ids) {
  const RandomMatrix random_weight(random, storage, n, k, experts);
  const link::Matrix weight = random_weight.view();
  const int used = static_cast<int>(ids.size());
  const FloatRows x = random_rows(random, 1, k * used);
  const auto got = expert_linear(x, {ids}, weight, kRound).front();
  std::vector<reference::Table> tables(experts);
  std::vector<double> allowed;
  std::vector<float> by_matrix;
  for (int slot = 0; slot < used; ++slot) {
    const std::vector<float> input(x[0].begin() + slot * k, x[0].begin() + (slot + 1) * k);
    tables[ids[slot]] = reference::dequantise(weight, ids[slot]);
    const auto errors = product_errors(reference::magnitudes(weight, ids[slot]), input);
    allowed.insert(allowed.end(), errors.begin(), errors.end());
    append(by_matrix, linear({input}, {expert_of(weight, ids[slot])}, kRound).front());
  }
  expect(worst_error(got, reference::expert_linear(tables, doubles(x[0]), ids), allowed) <= 1.0_d) << "K =" << k;
  expect(same_bits(got, by_matrix)) << "K =" << k;
}

suite<"experts on the device"> expert_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("expert_gelu_mul and expert_linear of " + label(storage) +
         " are near their definitions and equal products with one matrix to the bit") = [&storage] {
      Random random(1);
      for (const int k : {192, 128}) {
        if (!fits(storage, k)) continue;
        expect_expert_gelu_mul(random, storage, storage, k, 11, kExperts, {kExperts - 1, 0, 3});
        expect_expert_linear(random, storage, k, 11, kExperts, {kExperts - 1, 0, 3});
      }
    };

    test("experts of " + label(storage) + " give a row the same bits, shared with other rows or not") = [&storage] {
      Random random(2);
      const int n = 9, k = 128, rows = 12;
      const RandomMatrix random_gate(random, storage, n, k, kExperts), random_up(random, storage, n, k, kExperts);
      const link::Matrix gate = random_gate.view(), up = random_up.view();
      const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), many = random_rows(random, rows, k * kUsed);
      IdRows ids;  // half of the rows agree, the others do not
      for (int r = 0; r < rows; ++r)
        ids.push_back(r % 2 ? std::vector<std::int32_t>{4, 2, 6} : pick_experts(random, kUsed, kExperts));
      expect_rows_alone(random, rows, kRoundWidths, [&](const std::vector<int>& numbers) {
        return expert_gelu_mul(gather(x, numbers), gather(ids, numbers), gate, up, kRound);
      });
      expect_rows_alone(random, rows, kRoundWidths, [&](const std::vector<int>& numbers) {
        return expert_linear(gather(many, numbers), gather(ids, numbers), gate, kRound);
      });
    };
  }

  "experts are near their definitions at the widths of the published model, 8 of 128"_test = [] {
    Random random(3);
    for (const Storage& storage : main_storages()) {
      const std::vector<std::int32_t> ids = {127, 0, 64, 3, 99, 31, 32, 7};
      expect_expert_gelu_mul(random, storage, storage, 2816, 4, 128, ids);
      expect_expert_linear(random, storage, 704, 6, 128, ids);
    }
  };

  "expert_gelu_mul takes two weights of different storages"_test = [] {
    Random random(6);
    const Storage affine{Encoding::affine, DType::bf16, 4, 64}, plain{Encoding::plain, DType::bf16, 16, 0};
    expect_expert_gelu_mul(random, affine, plain, 192, 11, kExperts, {4, 1, 6});
    expect_expert_gelu_mul(random, plain, affine, 192, 11, kExperts, {4, 1, 6});
  };

  "rows of a prompt share experts in blocks of 8 and have the bits of rows of a round"_test = [] {
    Random random(4);
    const int n = 9, k = 192, rows = 70, used = 8, experts = 20;
    const RandomMatrix random_gate(random, {Encoding::affine, DType::bf16, 4, 64}, n, k, experts);
    const RandomMatrix random_up(random, {Encoding::affine, DType::bf16, 8, 64}, n, k, experts);
    const link::Matrix gate = random_gate.view(), up = random_up.view();
    const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), many = random_rows(random, rows, k * used);
    IdRows ids;
    for (int r = 0; r < rows; ++r) ids.push_back(pick_experts(random, used, experts));
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
    const int n = 4, k = 64, recorded = 19, rows = 10;
    const RandomMatrix random_weight(random, {Encoding::affine, DType::bf16, 4, 64}, n, k, kExperts);
    const link::Matrix weight = random_weight.view();
    const FloatRows x = random_rows(random, recorded, k * kUsed);
    IdRows ids;
    for (int r = 0; r < recorded; ++r) ids.push_back(pick_experts(random, kUsed, kExperts));
    Stage stage(graph::Op::expert_linear, expert_dims(weight, kUsed), recorded, kPrompt);
    stage.in(0, x);
    stage.in_ids(1, ids);
    stage.out(0, kUsed * n);
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
}  // namespace lapidary::test
