#include <algorithm>
#include <cmath>
#include <numeric>

#include "metal/check/cases.hpp"

namespace lapidary::metal::check {
namespace {

using graph::Op;
using Ids = std::vector<std::int32_t>;

constexpr int kRows = graph::kMaxVerifyRows;
constexpr float kEpsilon = 1e-6f;
constexpr double kNormError = 2e-6;  // of the largest element

Doubles rms(Doubles x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + double{kEpsilon});
  for (double& value : x) value *= factor;
  return x;
}

Doubles norm(const Doubles& x, const std::vector<float>& weight) {
  Doubles y = rms(x);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= weight[i];
  return y;
}

Doubles sum(Doubles a, const Doubles& b, double factor = 1) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = (a[i] + b[i]) * factor;
  return a;
}

Finding rms_norm(Workbench& bench, int width) {
  Random random(1);
  Trial trial(bench, Op::rms_norm, {.n = {width}, .epsilon = kEpsilon}, kRows);
  const auto x = random.rows(kRows, width);
  const auto weight = random.floats(width, -3.0f, 3.0f);
  trial.in(0, x);
  trial.out(0, width);
  trial.vector(0, weight);
  return trial.examine([&](int row) {
    Expected expected;
    expected.numbers(norm(doubles(x[row]), weight), kNormError);
    return expected;
  });
}

Finding residual_norm(Workbench& bench, int outputs, bool scaled) {
  Random random(2);
  constexpr int kWidth = 640;
  constexpr float kScalar = 0.37f, kScale = 0.0188f;
  Trial trial(bench, Op::residual_norm, {.n = {kWidth}, .scaled_output = outputs, .scale = kScale, .epsilon = kEpsilon},
              kRows);
  const auto h = random.rows(kRows, kWidth, -30.0f, 30.0f), y = random.rows(kRows, kWidth);
  const auto weights = random.rows(1 + outputs, kWidth);
  trial.stream(h);
  trial.in(1, y);
  trial.vector(0, weights[0]);
  if (scaled) trial.vector(1, std::vector<float>{kScalar});
  for (int i = 1; i <= outputs; ++i) {
    trial.out(i, kWidth);
    trial.vector(1 + i, weights[static_cast<std::size_t>(i)]);
  }
  return trial.examine([&](int row) {
    const Doubles stream = sum(doubles(h[row]), norm(doubles(y[row]), weights[0]), scaled ? double{kScalar} : 1.0);
    Expected expected;
    expected.numbers(stream, kNormError);
    for (int i = 1; i <= outputs; ++i) {
      Doubles out = norm(stream, weights[static_cast<std::size_t>(i)]);
      if (i == outputs)
        for (double& value : out) value *= kScale;
      expected.numbers(out, kNormError);
    }
    return expected;
  });
}

Finding moe_combine(Workbench& bench) {
  Random random(3);
  constexpr int kWidth = 320, kUsed = 4;
  constexpr float kScalar = 0.61f;
  Trial trial(bench, Op::moe_combine, {.n = {kWidth}, .experts_used = kUsed, .epsilon = kEpsilon}, kRows);
  const auto h = random.rows(kRows, kWidth, -30.0f, 30.0f), dense = random.rows(kRows, kWidth);
  const auto experts = random.rows(kRows, kUsed * kWidth), shares = random.rows(kRows, kUsed, 0.0f, 1.0f);
  const auto weights = random.rows(4, kWidth);
  trial.stream(h);
  trial.in(1, dense);
  trial.in(2, experts);
  trial.in(3, shares);
  trial.out(1, kWidth);
  for (int i = 0; i < 3; ++i) trial.vector(i, weights[static_cast<std::size_t>(i)]);
  trial.vector(3, std::vector<float>{kScalar});
  trial.vector(4, weights[3]);
  return trial.examine([&](int row) {
    Doubles mixed(kWidth, 0.0);
    for (int slot = 0; slot < kUsed; ++slot)
      for (int i = 0; i < kWidth; ++i) mixed[i] += double{shares[row][slot]} * experts[row][slot * kWidth + i];
    const Doubles both = sum(norm(doubles(dense[row]), weights[0]), norm(mixed, weights[1]));
    const Doubles stream = sum(doubles(h[row]), norm(both, weights[2]), kScalar);
    Expected expected;
    expected.numbers(stream, kNormError);
    expected.numbers(norm(stream, weights[3]), kNormError);
    return expected;
  });
}

// The ids of the largest, ties to the lower one.
Ids largest(const std::vector<float>& scores, int count) {
  Ids ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::sort(ids, [&](std::int32_t a, std::int32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  ids.resize(static_cast<std::size_t>(count));
  return ids;
}

void expect_route(Expected& expected, const std::vector<float>& scores, const std::vector<float>& scale, int used) {
  const Ids ids = largest(scores, used);
  Doubles weights;
  double total = 0;
  for (const std::int32_t id : ids) weights.push_back(std::exp(double{scores[id]} - scores[ids[0]]));
  for (const double weight : weights) total += weight;
  for (int slot = 0; slot < used; ++slot) weights[slot] *= scale[ids[slot]] / total;
  expected.ids(ids);
  expected.each(weights, 2e-6);
}

constexpr int kExperts = 128, kExpertsUsed = 8;

Finding route(Workbench& bench) {
  Random random(4);
  Trial trial(bench, Op::route, {.experts = kExperts, .experts_used = kExpertsUsed}, kRows);
  auto scores = random.rows(kRows, kExperts, -4.0f, 4.0f);
  for (float& score : scores[3]) score = std::round(score);  // ties
  const auto scale = random.floats(kExperts, 0.5f, 2.0f);
  trial.in(0, scores);
  trial.out(0, kExpertsUsed);
  trial.out(1, kExpertsUsed);
  trial.vector(0, scale);
  return trial.examine([&](int row) {
    Expected expected;
    expect_route(expected, scores[row], scale, kExpertsUsed);
    return expected;
  });
}

// The product has the first input and output, the route the others.
Finding linear_route(Workbench& bench) {
  Random random(7);
  constexpr int kInputs = 384, kOutputs = 83;
  const RandomMatrix matrix(random, {Encoding::affine, DType::bf16, 4, 64}, kOutputs, kInputs);
  Trial trial(bench, Op::linear, {.k = kInputs, .n = {kOutputs}}, kRows);
  const auto x = random.rows(kRows, kInputs), scores = random.rows(kRows, kExperts, -4.0f, 4.0f);
  const auto scale = random.floats(kExperts, 0.5f, 2.0f);
  trial.in(0, x);
  trial.in(1, scores);
  trial.out(0, kOutputs);
  trial.out(1, kExpertsUsed);
  trial.out(2, kExpertsUsed);
  trial.matrix(0, matrix);
  trial.dispatches = [&](const BoundStep& linear) {
    layout::Step params{};
    params.in[0] = trial.params.in[1];
    params.out[0] = trial.params.out[1];
    params.out[1] = trial.params.out[2];
    params.experts = kExperts;
    params.experts_used = kExpertsUsed;
    BoundStep route;
    route.params = bench.hold(&params, sizeof params);
    route.in[0] = linear.in[1];
    route.out = {linear.out[1], linear.out[2]};
    route.vectors[0] = bench.hold(scale);
    return std::vector{metal::linear_route(linear, route)};
  };
  return trial.examine([&](int row) {
    Doubles y;
    for (int n = 0; n < kOutputs; ++n) {
      const Doubles weights = matrix.row(n);
      y.push_back(std::inner_product(weights.begin(), weights.end(), x[row].begin(), 0.0));
    }
    Expected expected;
    expected.numbers(y, 4e-6);
    expect_route(expected, scores[row], scale, kExpertsUsed);
    return expected;
  });
}

Finding top(Workbench& bench) {
  Random random(5);
  constexpr int kCount = 300, kUsed = 32;
  Trial trial(bench, Op::top, {.experts = kCount, .experts_used = kUsed}, kRows);
  auto scores = random.rows(kRows, kCount);
  for (float& score : scores[5]) score = std::round(score);
  trial.in(0, scores);
  trial.out(0, kUsed);
  return trial.examine([&](int row) {
    Expected expected;
    expected.ids(largest(scores[row], kUsed));
    return expected;
  });
}

std::vector<float> frequencies(int head_dim) {
  std::vector<float> all;
  for (int i = 0; i < head_dim / 2; ++i) all.push_back(static_cast<float>(std::pow(1e4, -2.0 * i / head_dim)));
  return all;
}

Doubles angles_at(int position, const std::vector<float>& f) {
  Doubles angles;
  for (const float one : f) angles.push_back(std::cos(double{static_cast<float>(position) * one}));
  for (const float one : f) angles.push_back(std::sin(double{static_cast<float>(position) * one}));
  return angles;
}

Finding rope_angles(Workbench& bench) {
  constexpr int kHeadDim = 128;
  const auto f = frequencies(kHeadDim);
  Trial trial(bench, Op::rope_angles, {.head_dim = kHeadDim}, kRows);
  for (graph::Row& row : trial.table) row.position = row.position == 7 ? 131071 : row.position * 1013;
  trial.out(0, kHeadDim);
  trial.bound.constants = bench.hold(f);
  return trial.examine([&](int row) {
    Expected expected;
    expected.numbers(angles_at(trial.table[row].position, f), 3e-7);
    return expected;
  });
}

// A head of q or k: normed, then turned.
Doubles turned(const Doubles& head, const std::vector<float>& weight, const std::vector<float>& angles) {
  const Doubles a = norm(head, weight);
  const std::size_t half = a.size() / 2;
  Doubles y(a.size());
  for (std::size_t i = 0; i < half; ++i) {
    y[i] = a[i] * angles[i] - a[i + half] * angles[half + i];
    y[i + half] = a[i + half] * angles[i] + a[i] * angles[half + i];
  }
  return y;
}

Finding qkv_norm_rope(Workbench& bench, bool owns_kv, bool values_are_keys, bool bf16) {
  Random random(6);
  constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 96, kCapacity = 64;
  Trial trial(bench, Op::qkv_norm_rope, {.heads = kHeads, .kv_heads = kKvHeads, .head_dim = kHeadDim, .epsilon = kEpsilon,
                                         .owns_kv = owns_kv, .values_are_keys = values_are_keys}, kRows);
  for (graph::Row& row : trial.table) row.position += kCapacity - 3;  // the ring begins anew among them
  const int width = (kHeads + (!owns_kv ? 0 : values_are_keys ? kKvHeads : 2 * kKvHeads)) * kHeadDim;
  const auto x = random.rows(kRows, width), angles = random.rows(kRows, kHeadDim, -1.0f, 1.0f);
  const auto norms = random.rows(2, kHeadDim);
  trial.in(0, x);
  trial.in(1, angles);
  trial.out(0, kHeads * kHeadDim);
  trial.vector(0, norms[0]);
  if (owns_kv) {
    trial.vector(1, norms[1]);
    const std::vector<float> nothing(kKvHeads * kCapacity * kHeadDim, NAN);
    trial.kv(nothing, nothing, kCapacity, bf16);
  }
  return trial.examine([&](int row) {
    const auto head = [&](int number) {
      const auto begin = x[row].begin() + number * kHeadDim;
      return Doubles(begin, begin + kHeadDim);
    };
    // A number rounded to bfloat16 may have been off before it, and be rounded the other way.
    const auto kept = [&](Expected& expected, const Doubles& values) {
      if (bf16) expected.each(values, 0x1.02p-8);
      else expected.numbers(values, kNormError);
    };
    Expected expected;
    for (int h = 0; h < kHeads; ++h) expected.numbers(turned(head(h), norms[0], angles[row]), kNormError);
    for (int h = 0; owns_kv && h < kKvHeads; ++h) kept(expected, turned(head(kHeads + h), norms[1], angles[row]));
    for (int h = 0; owns_kv && h < kKvHeads; ++h) kept(expected, rms(head(kHeads + h + (values_are_keys ? 0 : kKvHeads))));
    return expected;
  });
}

// Without queries: what makes the K/V of a context.
Finding block_qkv(Workbench& bench, bool queries, bool bf16) {
  Random random(9);
  constexpr int kKvHeads = 2, kHeadDim = 128, kCapacity = 64;
  constexpr float kScale = 0.0884f;
  const int heads = queries ? 6 : 0;
  Trial trial(bench, Op::block_qkv, {.heads = heads, .kv_heads = kKvHeads, .head_dim = kHeadDim, .scale = kScale, .epsilon = kEpsilon,
                                     .owns_kv = true}, kRows);
  for (graph::Row& row : trial.table) row.position += kCapacity - 3;  // the ring begins anew among them
  const auto x = random.rows(kRows, (heads + 2 * kKvHeads) * kHeadDim), angles = random.rows(kRows, kHeadDim, -1.0f, 1.0f);
  const auto norms = random.rows(2, kHeadDim);
  trial.in(0, x);
  trial.in(1, angles);
  if (queries) {
    trial.out(0, heads * kHeadDim);
    trial.vector(0, norms[0]);
  }
  trial.vector(1, norms[1]);
  const std::vector<float> nothing(kKvHeads * kCapacity * kHeadDim, NAN);
  trial.kv(nothing, nothing, kCapacity, bf16);
  return trial.examine([&](int row) {
    const auto head = [&](int number) {
      const auto begin = x[row].begin() + number * kHeadDim;
      return Doubles(begin, begin + kHeadDim);
    };
    const auto kept = [&](Expected& expected, const Doubles& values) {
      if (bf16) expected.each(values, 0x1.02p-8);
      else expected.numbers(values, kNormError);
    };
    Expected expected;
    for (int h = 0; h < heads; ++h) {
      Doubles q = turned(head(h), norms[0], angles[row]);
      for (double& value : q) value *= kScale;
      expected.numbers(q, kNormError);
    }
    for (int h = 0; h < kKvHeads; ++h) kept(expected, turned(head(heads + h), norms[1], angles[row]));
    for (int h = 0; h < kKvHeads; ++h) kept(expected, head(heads + kKvHeads + h));
    return expected;
  });
}

Finding keep_tap(Workbench& bench) {
  Random random(10);
  constexpr int kWidth = 300;
  Trial trial(bench, Op::keep_tap, {.n = {kWidth}}, kRows);
  const auto x = random.rows(kRows, kWidth);
  trial.in(0, x);
  trial.out(0, kWidth);
  return trial.examine([&](int row) {
    Expected expected;
    expected.each(doubles(x[row]), 0);
    return expected;
  });
}

}  // namespace

std::vector<Case> row_cases() {
  return {{"rms_norm of 1536", [](Workbench& bench) { return rms_norm(bench, 1536); }},
          {"rms_norm of 100", [](Workbench& bench) { return rms_norm(bench, 100); }},
          {"residual_norm without outputs", [](Workbench& bench) { return residual_norm(bench, 0, true); }},
          {"residual_norm with three outputs", [](Workbench& bench) { return residual_norm(bench, 3, false); }},
          {"moe_combine", moe_combine},
          {"route", route},
          {"linear_route", linear_route},
          {"top", top},
          {"rope_angles", rope_angles},
          {"qkv_norm_rope", [](Workbench& bench) { return qkv_norm_rope(bench, true, false, false); }},
          {"qkv_norm_rope, bfloat16 K/V", [](Workbench& bench) { return qkv_norm_rope(bench, true, true, true); }},
          {"qkv_norm_rope without K/V", [](Workbench& bench) { return qkv_norm_rope(bench, false, false, false); }},
          {"block_qkv", [](Workbench& bench) { return block_qkv(bench, true, false); }},
          {"block_qkv of a context, bfloat16 K/V", [](Workbench& bench) { return block_qkv(bench, false, true); }},
          {"keep_tap", keep_tap}};
}

}  // namespace lapidary::metal::check
