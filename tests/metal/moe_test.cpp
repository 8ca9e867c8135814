// route, top and moe_combine on the device.
#include <boost/ut.hpp>

#include <array>
#include <cmath>
#include <limits>

#include "metal/stage.hpp"
#include "reference/draft.hpp"
#include "reference/moe.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using graph::Op;
using IdRows = std::vector<std::vector<std::int32_t>>;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

struct RoutedRows {
  IdRows ids;
  FloatRows weights;
};

RoutedRows route(const FloatRows& scores, const std::vector<float>& expert_scale, int used) {
  const graph::Dims dims{.experts = static_cast<int>(expert_scale.size()), .experts_used = used};
  Stage stage(Op::route, dims, static_cast<int>(scores.size()));
  stage.in(0, scores);
  stage.vector(0, expert_scale);
  stage.out(0, used);
  stage.out(1, used);
  stage.play();
  return {stage.ids(0), stage.floats(1)};
}

void expect_route(const FloatRows& scores, const std::vector<float>& expert_scale, int used) {
  const RoutedRows got = route(scores, expert_scale, used);
  for (std::size_t r = 0; r < scores.size(); ++r) {
    const reference::Routed expected = reference::route(doubles(scores[r]), doubles(expert_scale), used);
    expect(got.ids[r] == expected.ids);
    // Relative: a few roundings, and that of the distance to the largest score. Down to the smallest normal number: a GPU
    // may have no others.
    std::vector<double> allowed;
    for (int slot = 0; slot < used; ++slot) {
      const float score = scores[r][expected.ids[slot]], largest = scores[r][expected.ids.front()];
      const double rounding = std::abs(double{score - largest} - (double{score} - double{largest}));
      allowed.push_back((4e-7 + rounding) * std::abs(expected.weights[slot]) + 1.2e-38);
    }
    expect(worst_error(got.weights[r], expected.weights, allowed) <= 1.0_d)
        << used << "of" << expert_scale.size() << "experts";
  }
}

suite<"metal route"> route_suite = [] {
  "route picks the largest scores in descending order and weighs them by their softmax"_test = [] {
    Random random(1);
    for (const auto& [experts, used] :
         {std::pair{128, 8}, std::pair{8, 2}, std::pair{4, 4}, std::pair{5, 1}, std::pair{13, 3}, std::pair{32, 32}})
      for (const double size : {1.0, 30.0, 1e4})
        expect_route(random_rows(random, 8, experts, -size, size), random.floats(experts, -2, 2), used);
  };

  "route gives ties to the lower id"_test = [] {
    Random random(2);
    FloatRows scores = {std::vector<float>(128, 0.5f), std::vector<float>(128, -7.0f)};
    for (int round = 0; round < 50; ++round) {
      scores.emplace_back();
      for (int e = 0; e < 128; ++e) scores.back().push_back(static_cast<float>(random.below(5)));
    }
    expect_route(scores, random.floats(128, 0.5, 2), 8);
  };

  "the exponential in route is accurate from one down to nothing"_test = [] {
    FloatRows scores;
    for (double distance = 0.0; distance <= 110.0; distance += 0.037)
      scores.push_back({0.0f, static_cast<float>(-distance)});
    expect_route(scores, {1.0f, 1.0f}, 2);
  };

  "route gives a row the same ids and weights among any others"_test = [] {
    Random random(3);
    const auto expert_scale = random.floats(128, 0.5, 2);
    const FloatRows scores = random_rows(random, 17, 128, -8, 8);
    expect_rows_independent(random, 17, [&](const std::vector<int>& numbers, int) {
      RoutedRows routed = route(gather(scores, numbers), expert_scale, 8);
      for (std::size_t r = 0; r < numbers.size(); ++r)
        for (const std::int32_t id : routed.ids[r]) routed.weights[r].push_back(static_cast<float>(id));
      return routed.weights;
    });
  };
};

IdRows top(const FloatRows& scores, int used) {
  const graph::Dims dims{.experts = static_cast<int>(scores.front().size()), .experts_used = used};
  Stage stage(Op::top, dims, static_cast<int>(scores.size()));
  stage.in(0, scores);
  stage.out(0, used);
  stage.play();
  return stage.ids(0);
}

void expect_top(const FloatRows& scores, int used) {
  const IdRows got = top(scores, used);
  for (std::size_t r = 0; r < scores.size(); ++r)
    expect(got[r] == reference::top(doubles(scores[r]), used)) << used << "of" << scores[r].size();
}

suite<"metal top"> top_suite = [] {
  // Centroids of E2B and E4B, of the small models, and others.
  static constexpr std::pair<int, int> kSizes[] = {{2048, 32}, {32, 8}, {128, 8}, {300, 300}, {33, 32}, {7, 1}, {1, 1}};

  "top finds the largest in descending order"_test = [] {
    Random random(4);
    for (const auto& [count, used] : kSizes)
      for (const double size : {1e-30, 1.0, 1e30}) expect_top(random_rows(random, 3, count, -size, size), used);
    std::vector<float> sorted = random.floats(2048, -1, 1);
    std::sort(sorted.begin(), sorted.end());
    const std::vector<float> descending(sorted.rbegin(), sorted.rend());
    expect_top({sorted, descending}, 32);
  };

  "top gives ties to the lower id"_test = [] {
    Random random(5);
    for (const auto& [count, used] : kSizes) {
      FloatRows scores = {std::vector<float>(count, 0.5f), std::vector<float>(count, -kInfinity)};
      for (int round = 0; round < 20; ++round) {
        scores.emplace_back();
        for (int i = 0; i < count; ++i)
          scores.back().push_back(random.chance(2) ? -0.0f : static_cast<float>(random.below(5)));
      }
      expect_top(scores, used);
    }
  };

  "what is not a number is picked last, like the lowest"_test = [] {
    Random random(6);
    for (const auto& [count, used] : kSizes) {
      FloatRows scores = {std::vector<float>(count, kNaN)};
      for (int round = 0; round < 20; ++round) {
        scores.push_back(random.floats(count, -3, 3));
        for (float& score : scores.back())
          if (random.chance(1 + round % 4)) score = std::array{kNaN, -kNaN, -kInfinity, kInfinity, score}[random.below(5)];
      }
      expect_top(scores, used);
    }
  };

  "top gives a row the same ids among any others"_test = [] {
    Random random(7);
    for (const auto& [count, used] : {std::pair{2048, 32}, {32, 8}}) {
      const FloatRows scores = random_rows(random, 9, count);
      expect_rows_independent(random, 9, [&, used = used](const std::vector<int>& numbers, int) {
        FloatRows all;
        for (const auto& ids : top(gather(scores, numbers), used)) all.emplace_back(ids.begin(), ids.end());
        return all;
      });
    }
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
FloatRows moe_combine(const CombineRows& all, const std::vector<int>& numbers, const Combine& step, bool with_next) {
  const int rows = static_cast<int>(numbers.size()), n = static_cast<int>(step.sum.size());
  const int used = static_cast<int>(all.weights[0].size());
  Stage stage(Op::moe_combine, {.n = {n}, .experts_used = used, .epsilon = kEpsilon}, rows);
  stage.out(0, gather(all.h, numbers));
  stage.in_place(0, 0);
  stage.in(1, gather(all.dense, numbers));
  stage.in(2, gather(all.experts, numbers));
  stage.in(3, gather(all.weights, numbers));
  stage.vector(0, step.dense);
  stage.vector(1, step.experts);
  stage.vector(2, step.sum);
  stage.vector(3, std::vector<float>{step.scalar});
  if (with_next) {
    stage.vector(4, step.next);
    stage.out(1, n);
  }
  stage.play();
  FloatRows result = stage.floats(0);
  if (with_next) {
    const FloatRows out = stage.floats(1);
    for (int r = 0; r < rows; ++r) result[r].insert(result[r].end(), out[r].begin(), out[r].end());
  }
  return result;
}

suite<"metal moe_combine"> combine_suite = [] {
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
      Stage norm(Op::rms_norm, {.n = {n}, .epsilon = kEpsilon}, 1);
      norm.in(0, FloatRows{{got.begin(), got.begin() + n}});
      norm.vector(0, step.next);
      norm.out(0, n);
      norm.play();
      expect(same_bits({got.begin() + n, got.end()}, norm.floats(0).front())) << "width" << n;
    }
  };

  "moe_combine gives a row the same bits among any others"_test = [] {
    Random random(10);
    for (const auto& [n, used] : {std::pair{2816, 8}, std::pair{100, 3}}) {
      const Combine step(random, n);
      const CombineRows rows(random, 9, n, used);
      expect_rows_independent(random, 9, [&](const std::vector<int>& numbers, int) {
        return moe_combine(rows, numbers, step, true);
      });
    }
  };
};

}  // namespace
}  // namespace lapidary::test
