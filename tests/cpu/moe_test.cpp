// route, expert_gelu_mul, expert_linear and moe_combine.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "cpu/linear_tolerance.hpp"
#include "reference/moe.hpp"
#include "support/random_weights.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using IdRows = std::vector<std::vector<std::int32_t>>;

struct RoutedRows {
  IdRows ids;
  FloatRows weights;
};

RoutedRows route(const FloatRows& scores, const std::vector<float>& expert_scale, int used, int parts = 1) {
  const int rows = static_cast<int>(scores.size()), experts = static_cast<int>(expert_scale.size());
  const RowBuffer in(scores);
  IdBuffer ids(rows, used);
  RowBuffer weights(rows, used);
  in_parts(parts, [&](cpu::Part part) {
    cpu::route(rows, in.in(), expert_scale.data(), experts, used, ids.out(), weights.out(), part);
  });
  return {ids.rows(), weights.rows()};
}

void expect_route(const std::vector<float>& scores, const std::vector<float>& expert_scale, int used) {
  const RoutedRows got = route({scores}, expert_scale, used);
  const reference::Routed expected = reference::route(doubles(scores), doubles(expert_scale), used);
  expect(got.ids.front() == expected.ids);
  std::vector<double> allowed;  // relative, down to where float32 ends
  for (const double weight : expected.weights) allowed.push_back(4e-7 * std::abs(weight) + 1e-42);
  expect(worst_error(got.weights.front(), expected.weights, allowed) <= 1.0_d)
      << used << "of" << scores.size() << "experts";
}

suite<"route"> route_suite = [] {
  "route picks the largest scores in descending order and weighs them by their softmax"_test = [] {
    Random random(1);
    for (const auto& [experts, used] :
         {std::pair{128, 8}, std::pair{8, 2}, std::pair{4, 4}, std::pair{5, 1}, std::pair{13, 3}})
      for (const double size : {1.0, 30.0, 1e4})
        expect_route(random.floats(experts, -size, size), random.floats(experts, -2, 2), used);
  };

  "route gives ties to the lower id"_test = [] {
    Random random(2);
    expect_route(std::vector<float>(128, 0.5f), random.floats(128, 0.5, 2), 8);
    expect_route(std::vector<float>(128, -7.0f), random.floats(128, 0.5, 2), 8);
    for (int round = 0; round < 50; ++round) {
      std::vector<float> scores;
      for (int e = 0; e < 128; ++e) scores.push_back(static_cast<float>(random.below(5)));
      expect_route(scores, random.floats(128, 0.5, 2), 8);
    }
  };

  "the exponential in route is accurate from one down to nothing"_test = [] {
    for (double distance = 0.0; distance <= 110.0; distance += 0.037)
      expect_route({0.0f, static_cast<float>(-distance)}, {1.0f, 1.0f}, 2);
  };

  "route gives a row the same ids and weights among any others"_test = [] {
    Random random(3);
    const auto expert_scale = random.floats(128, 0.5, 2);
    const FloatRows scores = random_rows(random, 67, 128, -8, 8);
    expect_rows_independent(random, 67, [&](const std::vector<int>& numbers, int parts) {
      RoutedRows routed = route(gather(scores, numbers), expert_scale, 8, parts);
      for (std::size_t r = 0; r < numbers.size(); ++r)
        for (const std::int32_t id : routed.ids[r]) routed.weights[r].push_back(static_cast<float>(id));
      return routed.weights;
    });
  };
};

FloatRows expert_gelu_mul(const FloatRows& x, const IdRows& ids, const link::Matrix& gate, const link::Matrix& up,
                          int parts = 1) {
  const int rows = static_cast<int>(x.size()), used = static_cast<int>(ids.front().size());
  const RowBuffer in(x);
  const IdBuffer picked(ids);
  RowBuffer out(rows, used * gate.rows);
  in_parts(parts,
           [&](cpu::Part part) { cpu::expert_gelu_mul(rows, in.in(), picked.in(), used, gate, up, out.out(), part); });
  return out.rows();
}

FloatRows expert_linear(const FloatRows& x, const IdRows& ids, const link::Matrix& weight, int parts = 1) {
  const int rows = static_cast<int>(x.size()), used = static_cast<int>(ids.front().size());
  const RowBuffer in(x);
  const IdBuffer picked(ids);
  RowBuffer out(rows, used * weight.rows);
  in_parts(parts,
           [&](cpu::Part part) { cpu::expert_linear(rows, in.in(), picked.in(), used, weight, out.out(), part); });
  return out.rows();
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

std::vector<std::int32_t> pick_experts(Random& random) {
  const auto picked = random.pick(kUsed, kExperts);
  return {picked.begin(), picked.end()};
}

suite<"experts"> expert_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("expert_gelu_mul of " + label(storage) +
         " is near its definition and equals linear_gelu_mul to the bit") = [&storage] {
      Random random(4);
      for (const int k : {2816, 192}) {
        if (!fits(storage, k)) continue;
        const int n = 11;
        const RandomMatrix random_gate(random, storage, n, k, kExperts), random_up(random, storage, n, k, kExperts);
        const link::Matrix gate = random_gate.view(), up = random_up.view();
        const std::vector<std::int32_t> ids = {kExperts - 1, 0, 3};
        const FloatRows x = random_rows(random, 1, k, -0.2, 0.2);
        const auto got = expert_gelu_mul(x, {ids}, gate, up).front();

        std::vector<reference::Table> gates(kExperts), ups(kExperts);
        std::vector<double> allowed;
        std::vector<float> by_matrix;
        for (const std::int32_t id : ids) {
          gates[id] = reference::dequantise(gate, id);
          ups[id] = reference::dequantise(up, id);
          const auto errors = gelu_mul_errors(
              reference::linear(gates[id], doubles(x[0])), product_errors(reference::magnitudes(gate, id), x[0]),
              reference::linear(ups[id], doubles(x[0])), product_errors(reference::magnitudes(up, id), x[0]));
          allowed.insert(allowed.end(), errors.begin(), errors.end());
          const RowBuffer in(x);
          RowBuffer out(1, n);
          cpu::linear_gelu_mul(1, in.in(), expert_of(gate, id), expert_of(up, id), out.out(), {});
          const auto row = out.rows().front();
          by_matrix.insert(by_matrix.end(), row.begin(), row.end());
        }
        expect(worst_error(got, reference::expert_gelu_mul(gates, ups, doubles(x[0]), ids), allowed) <= 1.0_d)
            << "K =" << k;
        expect(same_bits(got, by_matrix)) << "K =" << k;
      }
    };

    test("expert_linear of " + label(storage) + " is near its definition and equals linear to the bit") = [&storage] {
      Random random(5);
      for (const int k : {704, 64, 128}) {
        if (!fits(storage, k)) continue;
        const int n = 11;
        const RandomMatrix random_weight(random, storage, n, k, kExperts);
        const link::Matrix weight = random_weight.view();
        const std::vector<std::int32_t> ids = {kExperts - 1, 0, 3};
        const FloatRows x = random_rows(random, 1, k * kUsed);
        const auto got = expert_linear(x, {ids}, weight).front();

        std::vector<reference::Table> tables(kExperts);
        std::vector<double> allowed;
        std::vector<float> by_matrix;
        for (int slot = 0; slot < kUsed; ++slot) {
          const std::vector<float> input(x[0].begin() + slot * k, x[0].begin() + (slot + 1) * k);
          tables[ids[slot]] = reference::dequantise(weight, ids[slot]);
          const auto errors = product_errors(reference::magnitudes(weight, ids[slot]), input);
          allowed.insert(allowed.end(), errors.begin(), errors.end());
          const RowBuffer in(FloatRows{input});
          RowBuffer out(1, n);
          const link::Matrix one = expert_of(weight, ids[slot]);
          const link::Matrix* const weights[] = {&one};
          cpu::linear(1, in.in(), weights, out.out(), {});
          const auto row = out.rows().front();
          by_matrix.insert(by_matrix.end(), row.begin(), row.end());
        }
        expect(worst_error(got, reference::expert_linear(tables, doubles(x[0]), ids), allowed) <= 1.0_d) << "K =" << k;
        expect(same_bits(got, by_matrix)) << "K =" << k;
      }
    };

    test("experts of " + label(storage) + " give a row the same bits, shared with other rows or not") = [&storage] {
      Random random(6);
      const int n = 9, k = 256, rows = 67;
      const RandomMatrix random_gate(random, storage, n, k, kExperts), random_up(random, storage, n, k, kExperts);
      const link::Matrix gate = random_gate.view(), up = random_up.view();
      const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), many = random_rows(random, rows, k * kUsed);
      IdRows ids;  // half of the rows agree, the others do not
      for (int r = 0; r < rows; ++r) ids.push_back(r % 2 ? std::vector<std::int32_t>{4, 2, 6} : pick_experts(random));
      expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
        return expert_gelu_mul(gather(x, numbers), gather(ids, numbers), gate, up, parts);
      });
      expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
        return expert_linear(gather(many, numbers), gather(ids, numbers), gate, parts);
      });
    };
  }

  "experts give a row the same bits in a chunk of hundreds of rows"_test = [] {
    Random random(7);
    const int n = 8, k = 64, rows = 259;
    const RandomMatrix random_weight(random, {Encoding::affine, DType::bf16, 4, 64}, n, k, kExperts);
    const link::Matrix weight = random_weight.view();
    const FloatRows x = random_rows(random, rows, k * kUsed);
    IdRows ids;
    for (int r = 0; r < rows; ++r) ids.push_back(pick_experts(random));
    expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
      return expert_linear(gather(x, numbers), gather(ids, numbers), weight, parts);
    });
  };
};

struct Combine {
  std::vector<float> dense, experts, sum, next;
  float scalar = 0.83f;

  Combine(Random& random, int n)
      : dense(random.floats(n, -2, 2)),
        experts(random.floats(n, -2, 2)),
        sum(random.floats(n, -2, 2)),
        next(random.floats(n, -2, 2)) {}
};

// Inputs of a row: h, dense, experts, weights.
struct CombineRows {
  FloatRows h, dense, experts, weights;

  CombineRows(Random& random, int rows, int n, int used)
      : h(random_rows(random, rows, n, -9, 9)),
        dense(random_rows(random, rows, n)),
        experts(random_rows(random, rows, n * used)),
        weights(random_rows(random, rows, used, 0.0, 1.0)) {}
};

// Returns h | next of each row, only h without a next norm.
FloatRows moe_combine(const CombineRows& all, const std::vector<int>& numbers, const Combine& step, bool with_next,
                      int parts = 1) {
  const int rows = static_cast<int>(numbers.size()), n = static_cast<int>(step.sum.size());
  RowBuffer h(gather(all.h, numbers)), next(rows, n);
  const RowBuffer dense(gather(all.dense, numbers)), experts(gather(all.experts, numbers)),
      weights(gather(all.weights, numbers));
  const cpu::MoeNorms norms{step.dense.data(), step.experts.data(), step.sum.data(), &step.scalar,
                            with_next ? step.next.data() : nullptr};
  in_parts(parts, [&](cpu::Part part) {
    cpu::moe_combine(rows, h.out(), dense.in(), experts.in(), weights.in(), static_cast<int>(all.weights[0].size()),
                     norms, n, kEpsilon, with_next ? next.out() : cpu::Out{}, part);
  });
  FloatRows result = h.rows();
  if (with_next) {
    const FloatRows out = next.rows();
    for (int r = 0; r < rows; ++r) result[r].insert(result[r].end(), out[r].begin(), out[r].end());
  }
  return result;
}

suite<"moe_combine"> combine_suite = [] {
  "moe_combine is near its definition, with and without a next norm"_test = [] {
    Random random(8);
    for (const auto& [n, used] : {std::pair{2816, 8}, std::pair{128, 2}, std::pair{100, 3}, std::pair{257, 1}})
      for (const bool with_next : {true, false}) {
        const Combine step(random, n);
        const CombineRows rows(random, 1, n, used);
        const auto expected = reference::moe_combine(
            doubles(rows.h[0]), doubles(rows.dense[0]), doubles(rows.experts[0]), doubles(rows.weights[0]),
            {doubles(step.dense), doubles(step.experts), doubles(step.sum), step.scalar}, kEpsilon);
        const auto got = moe_combine(rows, {0}, step, with_next).front();
        const std::vector<float> h(got.begin(), got.begin() + n);
        // Below 9 + 2 * 4 (h, and a norm of a sum of norms): a few roundings of that.
        expect(worst_error(h, expected, std::vector<double>(n, 5e-6)) <= 1.0_d)
            << "width" << n << "of" << used << "experts";
        expect(eq(got.size(), static_cast<std::size_t>(with_next ? 2 * n : n)));
      }
  };

  "the second output of moe_combine is rms_norm of the new residual stream, to the bit"_test = [] {
    Random random(9);
    for (const int n : {2816, 100}) {
      const Combine step(random, n);
      const auto got = moe_combine(CombineRows(random, 1, n, 4), {0}, step, true).front();
      const RowBuffer h(FloatRows{{got.begin(), got.begin() + n}});
      RowBuffer normed(1, n);
      cpu::rms_norm(1, h.in(), step.next.data(), n, kEpsilon, normed.out(), {});
      expect(same_bits({got.begin() + n, got.end()}, normed.rows().front())) << "width" << n;
    }
  };

  "moe_combine gives a row the same bits among any others"_test = [] {
    Random random(10);
    for (const auto& [n, used] : {std::pair{2816, 8}, std::pair{100, 3}}) {
      const Combine step(random, n);
      const CombineRows rows(random, 67, n, used);
      expect_rows_independent(random, 67, [&](const std::vector<int>& numbers, int parts) {
        return moe_combine(rows, numbers, step, true, parts);
      });
    }
  };
};

}  // namespace
}  // namespace lapidary::test
