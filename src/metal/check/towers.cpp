#include <algorithm>
#include <cmath>
#include <numeric>

#include "metal/check/cases.hpp"

namespace lapidary::metal::check {
namespace {

using graph::Op;
using Rows = std::vector<std::vector<float>>;

constexpr float kEpsilon = 1e-6f;
constexpr double kRowError = 4e-6, kProductError = 4e-6;  // of the largest element
constexpr int kRows = 40;                                 // more than a tile has
constexpr int kColumns = 8;                               // patches of a row of the picture

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The row times its inverse root mean square.
Doubles rms(Doubles x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + double{kEpsilon});
  for (double& value : x) value *= factor;
  return x;
}

Doubles centred(Doubles x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  for (double& value : x) value -= mean;
  return x;
}

Doubles times(Doubles x, const std::vector<float>& weight) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= weight[i];
  return x;
}

Doubles part(const std::vector<float>& row, int begin, int count) { return {row.begin() + begin, row.begin() + begin + count}; }

double dot(const Doubles& a, const Doubles& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

Expected near(const Doubles& values, double error = kRowError) {
  Expected expected;
  expected.numbers(values, error);
  return expected;
}

// Products with bounds, and what becomes of them.
Finding product(Workbench& bench, Op op) {
  Random random(1);
  constexpr int kInputs = 384, kOutputs = 83;
  RandomMatrix matrix(random, {Encoding::plain, DType::bf16, 16, 0}, kOutputs, kInputs);
  const link::Clip clip{-0.9f, 1.1f, -3.0f, 4.0f};
  matrix.clip(clip);
  Trial trial(bench, op, {.k = kInputs, .n = {kOutputs}}, kRows, NumericClass::prompt);
  const auto x = random.rows(kRows, kInputs, -1.5f, 1.5f);
  const auto bias = random.floats(kOutputs, -1.0f, 1.0f);
  trial.in(0, x);
  trial.out(0, kOutputs);
  trial.matrix(0, matrix);
  if (op == Op::linear_bias) trial.vector(1, bias);
  return trial.examine([&](int row) {
    Doubles inputs = doubles(x[row]), y;
    for (double& value : inputs) value = std::clamp<double>(value, clip.input_min, clip.input_max);
    for (int n = 0; n < kOutputs; ++n) {
      const double z = std::clamp<double>(dot(matrix.row(n), inputs), clip.output_min, clip.output_max);
      y.push_back(op == Op::linear_bias ? z + bias[n] : op == Op::linear_silu ? z * sigmoid(z) : z);
    }
    return near(y, kProductError);
  });
}

Finding rms_norm_alone(Workbench& bench) {
  Random random(2);
  constexpr int kWidth = 300;
  Trial trial(bench, Op::rms_norm, {.n = {kWidth}, .epsilon = kEpsilon}, kRows);
  const auto x = random.rows(kRows, kWidth);
  trial.in(0, x);
  trial.out(0, kWidth);
  return trial.examine([&](int row) { return near(rms(doubles(x[row]))); });
}

Finding layer_norm(Workbench& bench) {
  Random random(3);
  constexpr int kWidth = 6912;
  Trial trial(bench, Op::layer_norm, {.n = {kWidth}, .epsilon = kEpsilon}, kRows);
  const auto x = random.rows(kRows, kWidth, -1.0f, 4.0f), weights = random.rows(2, kWidth);
  trial.in(0, x);
  trial.out(0, kWidth);
  trial.vector(0, weights[0]);
  trial.vector(1, weights[1]);
  return trial.examine([&](int row) {
    Doubles y = times(rms(centred(doubles(x[row]))), weights[0]);
    for (int i = 0; i < kWidth; ++i) y[i] += weights[1][i];
    return near(y);
  });
}

Finding add_norm(Workbench& bench, bool normed) {
  Random random(4);
  constexpr int kWidth = 640;
  Trial trial(bench, Op::add_norm, {.n = {kWidth}, .epsilon = kEpsilon}, kRows);
  const auto h = random.rows(kRows, kWidth), y = random.rows(kRows, kWidth);
  const auto weight = random.floats(kWidth, -2.0f, 2.0f);
  trial.stream(h);
  trial.in(1, y);
  if (normed) {
    trial.out(1, kWidth);
    trial.vector(0, weight);
  }
  return trial.examine([&](int row) {
    Doubles sum = doubles(h[row]);
    for (int i = 0; i < kWidth; ++i) sum[i] += y[row][i];
    Expected expected = near(sum);
    if (normed) expected.numbers(times(rms(sum), weight), kRowError);
    return expected;
  });
}

Finding residual_part(Workbench& bench) {
  Random random(5);
  constexpr int kWidth = 640;
  constexpr float kPart = 0.5f;
  Trial trial(bench, Op::residual_norm, {.n = {kWidth}, .scale2 = kPart, .epsilon = kEpsilon}, kRows);
  const auto h = random.rows(kRows, kWidth), y = random.rows(kRows, kWidth);
  const auto weight = random.floats(kWidth, -2.0f, 2.0f);
  trial.stream(h);
  trial.in(1, y);
  trial.vector(0, weight);
  return trial.examine([&](int row) {
    Doubles sum = times(rms(doubles(y[row])), weight);
    for (int i = 0; i < kWidth; ++i) sum[i] = sum[i] * kPart + h[row][i];
    return near(sum);
  });
}

Finding scale_shift(Workbench& bench) {
  Random random(6);
  constexpr int kWidth = 300;
  Trial trial(bench, Op::scale_shift, {.n = {kWidth}, .scale = 2.0f, .scale2 = -1.0f}, kRows);
  const auto x = random.rows(kRows, kWidth);
  trial.in(0, x);
  trial.out(0, kWidth);
  return trial.examine([&](int row) {
    Doubles y = doubles(x[row]);
    for (double& value : y) value = 2 * value - 1;
    return near(y);
  });
}

Finding add_positions(Workbench& bench, bool inside) {
  Random random(7);
  constexpr int kWidth = 300, kPositions = 9;
  const RandomMatrix table(random, {Encoding::plain, DType::bf16, 16, 0}, 2 * kPositions, kWidth);
  Trial trial(bench, Op::add_positions, {.n = {kWidth}, .axis_inside = inside}, kRows);
  trial.place_matters = true;
  trial.run.columns = kColumns;
  const auto h = random.rows(kRows, kWidth);
  trial.stream(h);
  trial.matrix(0, table);
  return trial.examine([&](int row) {
    const int x = row % kColumns, y = row / kColumns;
    const Doubles by_x = table.row(inside ? 2 * x : x), by_y = table.row(inside ? 2 * y + 1 : kPositions + y);
    Doubles sum = doubles(h[row]);
    for (int i = 0; i < kWidth; ++i) sum[i] += by_x[i] + by_y[i];
    return near(sum);
  });
}

std::vector<float> frequencies(int count) {
  std::vector<float> all;
  for (int i = 0; i < count; ++i) all.push_back(static_cast<float>(std::pow(100.0, -double{1} * i / count)));
  return all;
}

Finding grid_angles(Workbench& bench) {
  constexpr int kHeadDim = 72;
  const auto f = frequencies(kHeadDim / 4);
  Trial trial(bench, Op::grid_angles, {.head_dim = kHeadDim}, kRows);
  trial.place_matters = true;
  trial.run.columns = kColumns;
  trial.out(0, kHeadDim);
  trial.bound.constants = bench.hold(f);
  return trial.examine([&](int row) {
    Doubles angles;
    for (const auto& wave : {+[](double x) { return std::cos(x); }, +[](double x) { return std::sin(x); }})
      for (const int at : {row % kColumns, row / kColumns})
        for (const float one : f) angles.push_back(wave(double{static_cast<float>(at) * one}));
    return near(angles, 3e-7);
  });
}

Finding qkv_grid_rope(Workbench& bench) {
  Random random(8);
  constexpr int kHeads = 3, kHeadDim = 72, kHalf = kHeadDim / 2, kQuarter = kHeadDim / 4;
  Trial trial(bench, Op::qkv_grid_rope, {.heads = kHeads, .kv_heads = kHeads, .head_dim = kHeadDim, .epsilon = kEpsilon}, kRows);
  const auto x = random.rows(kRows, 3 * kHeads * kHeadDim), angles = random.rows(kRows, kHeadDim, -1.0f, 1.0f);
  const auto norms = random.rows(2, kHeadDim);
  trial.in(0, x);
  trial.in(1, angles);
  trial.out(0, 3 * kHeads * kHeadDim);
  trial.vector(0, norms[0]);
  trial.vector(1, norms[1]);
  return trial.examine([&](int row) {
    Expected expected;
    for (int head = 0; head < 3 * kHeads; ++head) {
      Doubles y = rms(part(x[row], head * kHeadDim, kHeadDim));
      if (head < 2 * kHeads) {
        const Doubles a = times(y, norms[static_cast<std::size_t>(head / kHeads)]);
        for (int i = 0; i < kHalf; ++i) {
          const int first = i < kQuarter ? i : kHalf + i - kQuarter, second = first + kQuarter;
          const double cosine = angles[row][i], sine = angles[row][kHalf + i];
          y[first] = a[first] * cosine - a[second] * sine;
          y[second] = a[second] * cosine + a[first] * sine;
        }
      }
      expected.numbers(y, kRowError);
    }
    return expected;
  });
}

Finding attention_all(Workbench& bench, int head_dim, int count) {
  Random random(9);
  constexpr int kHeads = 2;
  Trial trial(bench, Op::attention_all, {.heads = kHeads, .kv_heads = kHeads, .head_dim = head_dim}, std::min(count, kRows));
  trial.place_matters = true;
  trial.run.input_rows = count;
  const auto x = random.rows(count, 3 * kHeads * head_dim, -0.7f, 0.7f);
  trial.whole(0, x);
  trial.out(0, kHeads * head_dim);
  return trial.examine([&](int row) {
    Expected expected;
    for (int head = 0; head < kHeads; ++head) {
      const Doubles query = part(x[row], head * head_dim, head_dim);
      Doubles scores, mix(static_cast<std::size_t>(head_dim), 0.0);
      for (const auto& other : x) scores.push_back(dot(query, part(other, (kHeads + head) * head_dim, head_dim)));
      const double most = *std::ranges::max_element(scores);
      double total = 0;
      for (std::size_t t = 0; t < scores.size(); ++t) {
        const double share = std::exp(scores[t] - most);
        total += share;
        for (int i = 0; i < head_dim; ++i) mix[i] += share * x[t][(2 * kHeads + head) * head_dim + i];
      }
      for (double& value : mix) value /= total;
      expected.numbers(mix, kRowError);
    }
    return expected;
  });
}

Finding pool(Workbench& bench, bool standardised) {
  Random random(10);
  constexpr int kWidth = 300, kSide = 2, kPatches = 6 * kColumns, kCells = kPatches / (kSide * kSide), kAcross = kColumns / kSide;
  constexpr float kScale = 6.3f;
  Trial trial(bench, Op::pool, {.n = {kWidth}, .window = kSide, .scale = kScale}, kCells);
  trial.place_matters = true;
  trial.run.columns = kColumns;
  const auto x = random.rows(kPatches, kWidth), weights = random.rows(2, kWidth);
  trial.whole(0, x);
  trial.out(0, kWidth);
  for (int i = 0; standardised && i < 2; ++i) trial.vector(i, weights[static_cast<std::size_t>(i)]);
  return trial.examine([&](int cell) {
    const int first = cell / kAcross * kSide * kColumns + cell % kAcross * kSide;
    Doubles y(kWidth, 0.0);
    for (int i = 0; i < kWidth; ++i) {
      for (int n = 0; n < kSide * kSide; ++n) y[i] += x[first + n / kSide * kColumns + n % kSide][i];
      y[i] *= double{kScale} / (kSide * kSide);
      if (standardised) y[i] = (y[i] - weights[0][i]) * weights[1][i];
    }
    return near(y);
  });
}

Finding conv_norm_relu(Workbench& bench) {
  Random random(11);
  constexpr int kFrames = 15, kBands = 6, kInputs = 5, kChannels = 40;
  Trial trial(bench, Op::conv_norm_relu, {.k = kBands * kInputs, .n = {kBands / 2 * kChannels}, .channels = kChannels, .epsilon = kEpsilon}, (kFrames + 1) / 2);
  trial.place_matters = true;
  trial.run.input_rows = kFrames;
  const auto x = random.rows(kFrames, kBands * kInputs);
  const auto taps = random.floats(9 * kInputs * kChannels, -0.3f, 0.3f), norm = random.floats(kChannels, -2.0f, 2.0f);
  trial.whole(0, x);
  trial.out(0, kBands / 2 * kChannels);
  trial.vector(0, taps);
  trial.vector(1, norm);
  return trial.examine([&](int row) {
    Expected expected;
    for (int band = 0; band < kBands / 2; ++band) {
      Doubles y(kChannels, 0.0);
      for (int tap = 0; tap < 9; ++tap) {
        const int frame = 2 * row + tap / 3 - 1, from = 2 * band + tap % 3 - 1;
        if (frame < 0 || frame >= kFrames || from < 0 || from >= kBands) continue;
        for (int i = 0; i < kInputs; ++i)
          for (int c = 0; c < kChannels; ++c) y[c] += double{x[frame][from * kInputs + i]} * taps[(tap * kInputs + i) * kChannels + c];
      }
      y = times(rms(centred(y)), norm);
      for (double& value : y) value = std::max(value, 0.0);
      expected.numbers(y, kRowError);
    }
    return expected;
  });
}

Finding distance_waves(Workbench& bench) {
  constexpr int kWidth = 96;
  const auto f = frequencies(kWidth / 2);
  Trial trial(bench, Op::distance_waves, {.k = kWidth}, 13);
  trial.place_matters = true;
  trial.out(0, kWidth);
  trial.bound.constants = bench.hold(f);
  return trial.examine([&](int row) {
    Doubles waves;
    for (const float one : f) waves.push_back(std::sin(double{static_cast<float>(row) * one}));
    for (const float one : f) waves.push_back(std::cos(double{static_cast<float>(row) * one}));
    return near(waves, 3e-7);
  });
}

Finding local_attention(Workbench& bench) {
  Random random(12);
  constexpr int kHeads = 3, kHeadDim = 72, kWindow = 12;
  constexpr float kScale = 0.4f, kKeyScale = 1.9f, kCap = 50.0f;
  Trial trial(bench, Op::local_attention,
              {.heads = kHeads, .kv_heads = kHeads, .head_dim = kHeadDim, .window = kWindow, .scale = kScale, .scale2 = kKeyScale, .cap = kCap}, kRows);
  trial.place_matters = true;
  const auto x = random.rows(kRows, 3 * kHeads * kHeadDim, -1.0f, 1.0f), relative = random.rows(kWindow, kHeads * kHeadDim, -1.0f, 1.0f);
  const auto dim_scale = random.floats(kHeadDim, -2.0f, 2.0f);
  trial.whole(0, x);
  trial.whole(1, relative);
  trial.out(0, kHeads * kHeadDim);
  trial.vector(0, dim_scale);
  return trial.examine([&](int row) {
    Expected expected;
    for (int head = 0; head < kHeads; ++head) {
      const int at = head * kHeadDim, keys = kHeads * kHeadDim + at, values = 2 * kHeads * kHeadDim + at, seen = std::min(kWindow, row + 1);
      Doubles scores;
      for (int e = 0; e < seen; ++e) {
        double score = 0;
        for (int i = 0; i < kHeadDim; ++i)
          score += double{x[row][at + i]} * kScale * std::log1p(std::exp(double{dim_scale[i]})) *
                   (double{x[row - e][keys + i]} * kKeyScale + relative[e][at + i]);
        scores.push_back(kCap * std::tanh(score / kCap));
      }
      const double most = *std::ranges::max_element(scores);
      double total = 0;
      Doubles mix(kHeadDim, 0.0);
      for (int e = 0; e < seen; ++e) {
        const double share = std::exp(scores[e] - most);
        total += share;
        for (int i = 0; i < kHeadDim; ++i) mix[i] += share * x[row - e][values + i];
      }
      for (double& value : mix) value /= total;
      expected.numbers(mix, 3 * kRowError);  // scores are large
    }
    return expected;
  });
}

Finding glu_conv(Workbench& bench) {
  Random random(13);
  constexpr int kWidth = 300, kTaps = 5;
  Trial trial(bench, Op::glu_conv, {.n = {kWidth}, .window = kTaps, .epsilon = kEpsilon}, kRows);
  trial.place_matters = true;
  const auto x = random.rows(kRows, 2 * kWidth), taps = random.rows(kTaps, kWidth);
  const auto norm = random.floats(kWidth, -2.0f, 2.0f);
  std::vector<float> joined;
  for (const auto& tap : taps) joined.insert(joined.end(), tap.begin(), tap.end());
  trial.whole(0, x);
  trial.out(0, kWidth);
  trial.vector(0, joined);
  trial.vector(1, norm);
  return trial.examine([&](int row) {
    Doubles y(kWidth, 0.0);
    for (int tap = std::max(0, kTaps - 1 - row); tap < kTaps; ++tap) {
      const auto& from = x[static_cast<std::size_t>(row - kTaps + 1 + tap)];
      for (int i = 0; i < kWidth; ++i) y[i] += double{taps[tap][i]} * from[i] * sigmoid(from[kWidth + i]);
    }
    y = times(rms(y), norm);
    for (double& value : y) value *= sigmoid(value);
    return near(y);
  });
}

}  // namespace

std::vector<Case> tower_cases() {
  return {{"linear with bounds", [](Workbench& bench) { return product(bench, Op::linear); }},
          {"linear_bias with bounds", [](Workbench& bench) { return product(bench, Op::linear_bias); }},
          {"linear_silu with bounds", [](Workbench& bench) { return product(bench, Op::linear_silu); }},
          {"rms_norm without a weight", rms_norm_alone},
          {"layer_norm", layer_norm},
          {"add_norm", [](Workbench& bench) { return add_norm(bench, false); }},
          {"add_norm with a norm", [](Workbench& bench) { return add_norm(bench, true); }},
          {"residual_norm of a part", residual_part},
          {"scale_shift", scale_shift},
          {"add_positions", [](Workbench& bench) { return add_positions(bench, false); }},
          {"add_positions, axes side by side", [](Workbench& bench) { return add_positions(bench, true); }},
          {"grid_angles", grid_angles},
          {"qkv_grid_rope", qkv_grid_rope},
          {"attention_all, heads of 64", [](Workbench& bench) { return attention_all(bench, 64, 100); }},
          {"attention_all, heads of 72", [](Workbench& bench) { return attention_all(bench, 72, 33); }},
          {"pool", [](Workbench& bench) { return pool(bench, false); }},
          {"pool with a standard", [](Workbench& bench) { return pool(bench, true); }},
          {"conv_norm_relu", conv_norm_relu},
          {"distance_waves", distance_waves},
          {"local_attention", local_attention},
          {"glu_conv", glu_conv}};
}

}  // namespace lapidary::metal::check
