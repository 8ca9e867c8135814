#include <cmath>
#include <numbers>

#include "metal/check/cases.hpp"

namespace lapidary::metal::check {
namespace {

using graph::Op;

constexpr double kProductError = 4e-6;  // of the largest output
constexpr int kInputs = 384, kRagged = 83;

const Storage kBf16{Encoding::plain, DType::bf16, 16, 0}, kAffine4{Encoding::affine, DType::bf16, 4, 64},
    kAffine8{Encoding::affine, DType::bf16, 8, 64};

// Every way to store values, with each type of scales once.
std::vector<Storage> storages() {
  return {{Encoding::plain, DType::f32, 32, 0},
          {Encoding::plain, DType::f16, 16, 0},
          kBf16,
          {Encoding::affine, DType::bf16, 2, 64},
          {Encoding::affine, DType::f16, 3, 32},
          kAffine4,
          {Encoding::affine, DType::f32, 4, 32},
          {Encoding::affine, DType::bf16, 5, 32},
          {Encoding::affine, DType::bf16, 6, 128},
          kAffine8,
          {Encoding::mxfp4, DType::u8, 4, 32},
          {Encoding::nvfp4, DType::u8, 4, 16},
          {Encoding::mxfp8, DType::u8, 8, 32}};
}

// "affine3/32 with F16 scales"; those of others are no news.
std::string label(const Storage& storage) {
  const bool usual = storage.encoding != Encoding::affine || storage.type == DType::bf16;
  return name_of(storage) + (usual ? "" : " with " + std::string(name_of(storage.type)) + " scales");
}

double gelu(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }

Doubles product(const RandomMatrix& matrix, const Doubles& x, int expert = 0) {
  Doubles y;
  for (int n = 0; n < matrix.view().rows; ++n) {
    const Doubles row = matrix.row(n, expert);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += row[i] * x[i];
    y.push_back(sum);
  }
  return y;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

Doubles gelu_mul(const RandomMatrix& gate, const RandomMatrix& up, const Doubles& x, int expert = 0) {
  Doubles y = product(gate, x, expert);
  const Doubles factors = product(up, x, expert);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = gelu(y[i]) * factors[i];
  return y;
}

int rows_of(NumericClass numeric) { return numeric == NumericClass::prompt ? 40 : graph::kMaxVerifyRows; }

Finding linear(Workbench& bench, const std::vector<Storage>& stored, NumericClass numeric) {
  Random random(1);
  std::vector<RandomMatrix> matrices;
  graph::Dims dims{.k = kInputs};
  int outputs = 0;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    matrices.emplace_back(random, stored[i], kRagged - 8 * static_cast<int>(i), kInputs);
    outputs += dims.n[i] = matrices[i].view().rows;
  }
  Trial trial(bench, Op::linear, dims, rows_of(numeric), numeric);
  const auto x = random.rows(rows_of(numeric), kInputs);
  trial.in(0, x);
  trial.out(0, outputs);
  for (std::size_t i = 0; i < matrices.size(); ++i) trial.matrix(static_cast<int>(i), matrices[i]);
  return trial.examine([&](int row) {
    Expected expected;
    for (const RandomMatrix& matrix : matrices) expected.numbers(product(matrix, doubles(x[row])), kProductError);
    return expected;
  });
}

Finding linear_gelu_mul(Workbench& bench, NumericClass numeric) {
  Random random(2);
  const RandomMatrix gate(random, kAffine4, kRagged, kInputs), up(random, kBf16, kRagged, kInputs);
  Trial trial(bench, Op::linear_gelu_mul, {.k = kInputs, .n = {kRagged}}, rows_of(numeric), numeric);
  const auto x = random.rows(rows_of(numeric), kInputs, -0.2f, 0.2f);
  trial.in(0, x);
  trial.out(0, kRagged);
  trial.matrix(0, gate);
  trial.matrix(1, up);
  return trial.examine([&](int row) {
    Expected expected;
    expected.numbers(gelu_mul(gate, up, doubles(x[row])), kProductError);
    return expected;
  });
}

Finding linear_silu_mul(Workbench& bench) {
  Random random(11);
  constexpr int kRows = graph::kMaxVerifyRows;
  const RandomMatrix gate(random, kAffine8, kRagged, kInputs), up(random, kAffine4, kRagged, kInputs);
  Trial trial(bench, Op::linear_silu_mul, {.k = kInputs, .n = {kRagged}}, kRows);
  const auto x = random.rows(kRows, kInputs, -0.2f, 0.2f);
  trial.in(0, x);
  trial.out(0, kRagged);
  trial.matrix(0, gate);
  trial.matrix(1, up);
  return trial.examine([&](int row) {
    Doubles y = product(gate, doubles(x[row]));
    const Doubles factors = product(up, doubles(x[row]));
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = silu(y[i]) * factors[i];
    Expected expected;
    expected.numbers(y, kProductError);
    return expected;
  });
}

Finding linear_gelu_gate(Workbench& bench, NumericClass numeric) {
  Random random(3);
  constexpr int kOffset = 17;
  const RandomMatrix weight(random, kAffine8, kRagged, kInputs);
  Trial trial(bench, Op::linear_gelu_gate, {.k = kInputs, .n = {kRagged}, .offset = kOffset}, rows_of(numeric), numeric);
  const auto x = random.rows(rows_of(numeric), kInputs, -0.2f, 0.2f);
  const auto factors = random.rows(rows_of(numeric), kOffset + kRagged);
  trial.in(0, x);
  trial.in(1, factors);
  trial.out(0, kRagged);
  trial.matrix(0, weight);
  return trial.examine([&](int row) {
    Doubles y = product(weight, doubles(x[row]));
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = gelu(y[i]) * factors[row][kOffset + i];
    Expected expected;
    expected.numbers(y, kProductError);
    return expected;
  });
}

Finding linear_softcap(Workbench& bench, NumericClass numeric) {
  Random random(4);
  constexpr float kCap = 30.0f;
  const RandomMatrix weight(random, kBf16, kRagged, kInputs);
  Trial trial(bench, Op::linear_softcap, {.k = kInputs, .n = {kRagged}, .scale = kCap}, rows_of(numeric), numeric);
  const auto x = random.rows(rows_of(numeric), kInputs);
  trial.in(0, x);
  trial.out(0, kRagged);
  trial.matrix(0, weight);
  return trial.examine([&](int row) {
    Doubles y = product(weight, doubles(x[row]));
    for (double& value : y) value = kCap * std::tanh(value / kCap);
    Expected expected;
    expected.numbers(y, kProductError);
    return expected;
  });
}

constexpr int kExperts = 7, kUsed = 3;

// Every row picks some experts, in an order of its own.
std::vector<std::vector<std::int32_t>> picks(Random& random, int rows, int used, int experts) {
  std::vector<std::vector<std::int32_t>> all;
  for (int r = 0; r < rows; ++r) all.push_back(random.different(used, experts));
  return all;
}

Finding expert_gelu_mul(Workbench& bench, NumericClass numeric) {
  Random random(5);
  const RandomMatrix gate(random, kAffine4, kRagged, kInputs, kExperts), up(random, kAffine4, kRagged, kInputs, kExperts);
  Trial trial(bench, Op::expert_gelu_mul, {.k = kInputs, .n = {kRagged}, .experts = kExperts, .experts_used = kUsed},
              rows_of(numeric), numeric);
  const auto x = random.rows(rows_of(numeric), kInputs, -0.2f, 0.2f);
  const auto ids = picks(random, rows_of(numeric), kUsed, kExperts);
  trial.in(0, x);
  trial.in(1, ids);
  trial.out(0, kUsed * kRagged);
  trial.matrix(0, gate);
  trial.matrix(1, up);
  return trial.examine([&](int row) {
    Expected expected;
    for (const std::int32_t id : ids[row]) expected.numbers(gelu_mul(gate, up, doubles(x[row]), id), kProductError);
    return expected;
  });
}

Finding expert_linear(Workbench& bench, NumericClass numeric) {
  Random random(6);
  const RandomMatrix weight(random, kBf16, kRagged, kInputs, kExperts);
  Trial trial(bench, Op::expert_linear, {.k = kInputs, .n = {kRagged}, .experts = kExperts, .experts_used = kUsed},
              rows_of(numeric), numeric);
  const auto x = random.rows(rows_of(numeric), kUsed * kInputs);
  const auto ids = picks(random, rows_of(numeric), kUsed, kExperts);
  trial.in(0, x);
  trial.in(1, ids);
  trial.out(0, kUsed * kRagged);
  trial.matrix(0, weight);
  return trial.examine([&](int row) {
    Expected expected;
    for (int slot = 0; slot < kUsed; ++slot) {
      const auto begin = x[row].begin() + slot * kInputs;
      expected.numbers(product(weight, {begin, begin + kInputs}, ids[row][slot]), kProductError);
    }
    return expected;
  });
}

constexpr double kLookupError = 1e-6;

Finding embed(Workbench& bench, const Storage& storage) {
  Random random(7);
  constexpr float kScale = 39.25f;
  const RandomMatrix table(random, storage, graph::kMaxVerifyRows, kInputs);
  Trial trial(bench, Op::embed, {.n = {kInputs}, .scale = kScale}, graph::kMaxVerifyRows);
  trial.out(0, kInputs);
  trial.matrix(0, table);
  return trial.examine([&](int row) {
    Doubles y = table.row(row);
    for (double& value : y) value *= kScale;
    Expected expected;
    expected.numbers(y, kLookupError);
    return expected;
  });
}

Finding embed_pair(Workbench& bench) {
  Random random(8);
  constexpr float kScale = 16.0f;
  const RandomMatrix table(random, kAffine4, graph::kMaxVerifyRows, kInputs);
  Trial trial(bench, Op::embed_pair, {.n = {kInputs}, .scale = kScale}, graph::kMaxVerifyRows);
  const auto hidden = random.rows(graph::kMaxVerifyRows, kInputs);
  trial.in(0, hidden);
  trial.out(0, 2 * kInputs);
  trial.matrix(0, table);
  return trial.examine([&](int row) {
    Doubles y = table.row(row);
    for (double& value : y) value *= kScale;
    Expected expected;
    expected.numbers(y, kLookupError);
    expected.each(doubles(hidden[row]), 0.0);
    return expected;
  });
}

Finding ple_inputs(Workbench& bench) {
  Random random(9);
  constexpr int kWidth = 64, kLayers = 5;
  constexpr float kScale = 0.0255f, kScale2 = 16.0f, kEpsilon = 1e-6f;
  const RandomMatrix table(random, kAffine8, graph::kMaxVerifyRows, kLayers * kWidth);
  Trial trial(bench, Op::ple_inputs, {.n = {kWidth, kLayers}, .scale = kScale, .scale2 = kScale2, .epsilon = kEpsilon},
              graph::kMaxVerifyRows);
  const auto projected = random.rows(graph::kMaxVerifyRows, kLayers * kWidth);
  const auto norm = random.floats(kWidth, -2.0f, 2.0f);
  trial.in(0, projected);
  trial.out(0, kLayers * kWidth);
  trial.matrix(0, table);
  trial.vector(1, norm);
  return trial.examine([&](int row) {
    Doubles y;
    const Doubles entries = table.row(row);
    for (int begin = 0; begin < kLayers * kWidth; begin += kWidth) {
      double squares = 0;
      for (int i = 0; i < kWidth; ++i) squares += std::pow(double{projected[row][begin + i]} * kScale, 2);
      const double factor = kScale / std::sqrt(squares / kWidth + kEpsilon);
      for (int i = 0; i < kWidth; ++i)
        y.push_back((projected[row][begin + i] * factor * norm[i] + entries[begin + i] * kScale2) / std::numbers::sqrt2);
    }
    Expected expected;
    expected.numbers(y, kLookupError);
    return expected;
  });
}

Finding cluster_logits(Workbench& bench) {
  Random random(10);
  constexpr int kClusters = 16, kTokens = 21, kTaken = 4, kVocab = kClusters * kTokens;
  const RandomMatrix table(random, kAffine4, kVocab, kInputs);
  const auto order = random.different(kVocab, kVocab);
  Trial trial(bench, Op::cluster_logits, {.k = kInputs, .n = {kTokens}, .experts = kClusters, .experts_used = kTaken},
              graph::kMaxVerifyRows);
  const auto x = random.rows(graph::kMaxVerifyRows, kInputs);
  const auto clusters = picks(random, graph::kMaxVerifyRows, kTaken, kClusters);
  trial.in(0, x);
  trial.in(1, clusters);
  trial.out(0, kTaken * kTokens);
  trial.out(1, kTaken * kTokens);
  trial.matrix(0, table);
  trial.vector(1, order);
  return trial.examine([&](int row) {
    const Doubles all = product(table, doubles(x[row]));
    std::vector<std::int32_t> tokens;
    Doubles logits;
    for (const std::int32_t cluster : clusters[row])
      for (int i = 0; i < kTokens; ++i) {
        tokens.push_back(order[cluster * kTokens + i]);
        logits.push_back(all[tokens.back()]);
      }
    Expected expected;
    expected.numbers(logits, kProductError);
    expected.ids(tokens);
    return expected;
  });
}

}  // namespace

std::vector<Case> product_cases() {
  std::vector<Case> cases;
  for (const NumericClass numeric : {NumericClass::round, NumericClass::prompt}) {
    const std::string prompt = numeric == NumericClass::prompt ? ", prompt" : "";
    for (const Storage& storage : storages())
      cases.push_back({"linear " + label(storage) + prompt,
                       [=](Workbench& bench) { return linear(bench, {storage}, numeric); }});
    cases.push_back({"linear of three matrices" + prompt,
                     [=](Workbench& bench) { return linear(bench, {kAffine4, kBf16, kAffine8}, numeric); }});
    cases.push_back({"linear_gelu_mul" + prompt, [=](Workbench& bench) { return linear_gelu_mul(bench, numeric); }});
    cases.push_back({"linear_gelu_gate" + prompt, [=](Workbench& bench) { return linear_gelu_gate(bench, numeric); }});
    cases.push_back({"linear_softcap" + prompt, [=](Workbench& bench) { return linear_softcap(bench, numeric); }});
    cases.push_back({"expert_gelu_mul" + prompt, [=](Workbench& bench) { return expert_gelu_mul(bench, numeric); }});
    cases.push_back({"expert_linear" + prompt, [=](Workbench& bench) { return expert_linear(bench, numeric); }});
  }
  for (const Storage& storage : storages())
    cases.push_back({"embed " + label(storage), [=](Workbench& bench) { return embed(bench, storage); }});
  cases.push_back({"linear_silu_mul", linear_silu_mul});
  cases.push_back({"embed_pair", embed_pair});
  cases.push_back({"ple_inputs", ple_inputs});
  cases.push_back({"cluster_logits", cluster_logits});
  return cases;
}

}  // namespace lapidary::metal::check
