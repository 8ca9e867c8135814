// route, top and moe_combine of a backend.
#pragma once

#include <array>

#include "reference/draft.hpp"
#include "reference/moe.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

struct RoutedRows {
  IdRows ids;
  FloatRows weights;
};

struct RouteKernel {
  std::function<RoutedRows(const FloatRows& scores, const std::vector<float>& expert_scale, int used, int parts)> route;
  double least_weight;  // smaller ones may become nothing
  int rows;             // to compute together
};

inline void expect_route(const RouteKernel& kernel, const FloatRows& scores, const std::vector<float>& expert_scale,
                         int used) {
  using namespace boost::ut;
  const RoutedRows got = kernel.route(scores, expert_scale, used, 1);
  for (std::size_t r = 0; r < scores.size(); ++r) {
    const reference::Routed expected = reference::route(doubles(scores[r]), doubles(expert_scale), used);
    expect(got.ids[r] == expected.ids);
    std::vector<double> allowed;  // relative: a few roundings, and that of the distance to the largest score
    for (int slot = 0; slot < used; ++slot) {
      const float score = scores[r][expected.ids[slot]], largest = scores[r][expected.ids.front()];
      const double rounding = std::abs(double{score - largest} - (double{score} - double{largest}));
      allowed.push_back((4e-7 + rounding) * std::abs(expected.weights[slot]) + kernel.least_weight);
    }
    expect(worst_error(got.weights[r], expected.weights, allowed) <= 1.0_d)
        << used << "of" << expert_scale.size() << "experts";
  }
}

inline void test_route(const RouteKernel& kernel) {
  using namespace boost::ut;

  "route picks the largest scores in descending order and weighs them by their softmax"_test = [&] {
    Random random(1);
    for (const auto& [experts, used] :
         {std::pair{128, 8}, std::pair{8, 2}, std::pair{4, 4}, std::pair{5, 1}, std::pair{13, 3}, std::pair{32, 32}})
      for (const double size : {1.0, 30.0, 1e4})
        expect_route(kernel, random_rows(random, 8, experts, -size, size), random.floats(experts, -2, 2), used);
  };

  "route gives ties to the lower id"_test = [&] {
    Random random(2);
    FloatRows scores = {std::vector<float>(128, 0.5f), std::vector<float>(128, -7.0f)};
    for (int round = 0; round < 50; ++round) {
      scores.emplace_back();
      for (int e = 0; e < 128; ++e) scores.back().push_back(static_cast<float>(random.below(5)));
    }
    expect_route(kernel, scores, random.floats(128, 0.5, 2), 8);
  };

  "the exponential in route is accurate from one down to nothing"_test = [&] {
    FloatRows scores;
    for (double distance = 0.0; distance <= 110.0; distance += 0.037)
      scores.push_back({0.0f, static_cast<float>(-distance)});
    expect_route(kernel, scores, {1.0f, 1.0f}, 2);
  };

  "route gives a row the same ids and weights among any others"_test = [&] {
    Random random(3);
    const auto expert_scale = random.floats(128, 0.5, 2);
    const FloatRows scores = random_rows(random, kernel.rows, 128, -8, 8);
    expect_rows_independent(random, kernel.rows, [&](const std::vector<int>& numbers, int parts) {
      RoutedRows routed = kernel.route(gather(scores, numbers), expert_scale, 8, parts);
      append_rows(routed.weights, routed.ids);
      return routed.weights;
    });
  };
}

struct TopKernel {
  std::function<IdRows(const FloatRows& scores, int used, int parts)> top;
  int most;  // that it finds
  int rows;  // to compute together
};

inline void expect_top(const TopKernel& kernel, const FloatRows& scores, int used) {
  const IdRows got = kernel.top(scores, used, 1);
  for (std::size_t r = 0; r < scores.size(); ++r)
    boost::ut::expect(got[r] == reference::top(doubles(scores[r]), used)) << used << "of" << scores[r].size();
}

inline void test_top(const TopKernel& kernel) {
  using namespace boost::ut;
  // Centroids of E2B and E4B, of the small models, and others.
  const std::vector<std::pair<int, int>> sizes = {{2048, 32}, {32, 8}, {128, 8},        {kernel.most, kernel.most},
                                                  {33, 32},   {7, 1},  {1, 1}};

  "top finds the largest in descending order"_test = [&] {
    Random random(4);
    for (const auto& [count, used] : sizes)
      for (const double size : {1e-30, 1.0, 1e30}) expect_top(kernel, random_rows(random, 3, count, -size, size), used);
    std::vector<float> sorted = random.floats(2048, -1, 1);
    std::sort(sorted.begin(), sorted.end());
    const std::vector<float> descending(sorted.rbegin(), sorted.rend());
    expect_top(kernel, {sorted, descending}, 32);
  };

  "top gives ties to the lower id"_test = [&] {
    Random random(5);
    for (const auto& [count, used] : sizes) {
      FloatRows scores = {std::vector<float>(count, 0.5f), std::vector<float>(count, -kInfinity)};
      for (int round = 0; round < 20; ++round) {
        scores.emplace_back();
        for (int i = 0; i < count; ++i)
          scores.back().push_back(random.chance(2) ? -0.0f : static_cast<float>(random.below(5)));
      }
      expect_top(kernel, scores, used);
    }
  };

  "what is not a number is picked last, like the lowest"_test = [&] {
    Random random(6);
    for (const auto& [count, used] : sizes) {
      FloatRows scores = {std::vector<float>(count, kNaN)};
      for (int round = 0; round < 20; ++round) {
        scores.push_back(random.floats(count, -3, 3));
        for (float& score : scores.back())
          if (random.chance(1 + round % 4)) score = std::array{kNaN, -kNaN, -kInfinity, kInfinity, score}[random.below(5)];
      }
      expect_top(kernel, scores, used);
    }
  };

  "top gives a row the same ids among any others"_test = [&] {
    Random random(7);
    for (const auto& [count, used] : {std::pair{2048, 32}, {32, 8}}) {
      const FloatRows scores = random_rows(random, kernel.rows, count);
      expect_rows_independent(random, kernel.rows, [&, used = used](const std::vector<int>& numbers, int parts) {
        FloatRows all(numbers.size());
        append_rows(all, kernel.top(gather(scores, numbers), used, parts));
        return all;
      });
    }
  };
}

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

  CombineRows(const CombineRows& all, const std::vector<int>& numbers)
      : h(gather(all.h, numbers)),
        dense(gather(all.dense, numbers)),
        experts(gather(all.experts, numbers)),
        weights(gather(all.weights, numbers)) {}
};

struct CombineKernel {
  // Returns h | next of each row, only h without a next norm.
  std::function<FloatRows(const CombineRows& rows, const Combine& step, bool with_next, int parts)> moe_combine;
  std::function<FloatRows(const FloatRows& x, const std::vector<float>& weight)> rms_norm;
  int rows;  // to compute together
};

inline void test_moe_combine(const CombineKernel& kernel) {
  using namespace boost::ut;

  "moe_combine is near its definition, with and without a next norm"_test = [&] {
    Random random(8);
    for (const auto& [n, used] : {std::pair{2816, 8}, std::pair{128, 2}, std::pair{100, 3}, std::pair{257, 1}})
      for (const bool with_next : {true, false}) {
        const Combine step(random, n);
        const CombineRows rows(random, 1, n, used);
        const auto expected = reference::moe_combine(
            doubles(rows.h[0]), doubles(rows.dense[0]), doubles(rows.experts[0]), doubles(rows.weights[0]),
            {doubles(step.dense), doubles(step.experts), doubles(step.sum), step.scalar}, kEpsilon);
        const auto got = kernel.moe_combine(rows, step, with_next, 1).front();
        const std::vector<float> h(got.begin(), got.begin() + n);
        // Below 9 + 2 * 4 (h, and a norm of a sum of norms): a few roundings of that.
        expect(worst_error(h, expected, std::vector<double>(n, 5e-6)) <= 1.0_d)
            << "width" << n << "of" << used << "experts";
        expect(eq(got.size(), static_cast<std::size_t>(with_next ? 2 * n : n)));
      }
  };

  "the second output of moe_combine is rms_norm of the new residual stream, to the bit"_test = [&] {
    Random random(9);
    for (const int n : {2816, 100}) {
      const Combine step(random, n);
      const auto got = kernel.moe_combine(CombineRows(random, 1, n, 4), step, true, 1).front();
      const auto normed = kernel.rms_norm({{got.begin(), got.begin() + n}}, step.next).front();
      expect(same_bits({got.begin() + n, got.end()}, normed)) << "width" << n;
    }
  };

  "moe_combine gives a row the same bits among any others"_test = [&] {
    Random random(10);
    for (const auto& [n, used] : {std::pair{2816, 8}, std::pair{100, 3}}) {
      const Combine step(random, n);
      const CombineRows rows(random, kernel.rows, n, used);
      expect_rows_independent(random, kernel.rows, [&](const std::vector<int>& numbers, int parts) {
        return kernel.moe_combine(CombineRows(rows, numbers), step, true, parts);
      });
    }
  };
}

}  // namespace lapidary::test
