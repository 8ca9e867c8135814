#include <algorithm>
#include <cmath>

#include "metal/check/cases.hpp"
#include "numeric/bf16.hpp"

namespace lapidary::metal::check {
namespace {

struct Heads {
  int heads, kv_heads, head_dim;
};

// Rows at the end of `positions` of context. `ranges` as in BoundStep.
Finding attention(Workbench& bench, const Heads& shape, int window, int positions, bool bf16, int ranges,
                  NumericClass numeric) {
  Random random(1);
  constexpr int kRows = graph::kMaxVerifyRows;
  const auto [heads, kv_heads, head_dim] = shape;
  // Full layers keep all positions, the ring of a sliding one no more than it needs.
  const int needed = window ? window + kRows : positions;
  const int capacity = (needed + graph::kTile - 1) / graph::kTile * graph::kTile;
  const graph::Dims dims{.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .window = window};
  Trial trial(bench, graph::Op::attention, dims, kRows, numeric);
  for (graph::Row& row : trial.table) row.position = row.block_end = positions - kRows + row.position;
  const auto q = random.rows(kRows, heads * head_dim, -0.3f, 0.3f);
  const int elements = kv_heads * capacity * head_dim;
  auto keys = random.floats(elements, -1.0f, 1.0f), values = random.floats(elements, -2.0f, 2.0f);
  for (auto* all : {&keys, &values})
    for (float& x : *all)
      if (bf16) x = numeric::from_bf16(numeric::to_bf16(x));
  trial.in(0, q);
  trial.out(0, heads * head_dim);
  trial.kv(keys, values, capacity, bf16);
  trial.bound.kv_ranges = ranges;
  const std::vector<float> scratch(attention_scratch_bytes(dims, kRows, ranges) / sizeof(float), NAN);
  if (!scratch.empty()) trial.bound.scratch = bench.hold(scratch);

  return trial.examine([&](int row) {
    const int last = trial.table[row].position, first = window ? std::max(0, last - window + 1) : 0;
    Expected expected;
    for (int head = 0; head < heads; ++head) {
      const int kv_head = head / (heads / kv_heads);
      const auto at = [&](int position) {
        return static_cast<std::size_t>(kv_head * capacity + position % capacity) * static_cast<std::size_t>(head_dim);
      };
      Doubles scores;
      for (int t = first; t <= last; ++t) {
        double score = 0;
        for (int i = 0; i < head_dim; ++i) score += double{q[row][head * head_dim + i]} * keys[at(t) + i];
        scores.push_back(score);
      }
      const double most = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      Doubles mix(static_cast<std::size_t>(head_dim), 0.0);
      for (int t = first; t <= last; ++t) {
        const double weight = std::exp(scores[t - first] - most);
        total += weight;
        for (int i = 0; i < head_dim; ++i) mix[i] += weight * values[at(t) + i];
      }
      for (double& value : mix) value /= total;
      expected.numbers(mix, 2e-5);
    }
    return expected;
  });
}

}  // namespace

std::vector<Case> attention_cases() {
  constexpr NumericClass kRound = NumericClass::round, kPrompt = NumericClass::prompt;
  struct Shape {
    const char* name;
    Heads heads;
    int window, positions;
    bool bf16;
    int ranges;
    NumericClass numeric;
  };
  // Head sizes in which a lane has 4, 8 and 16 elements; 1, 2 and 4 heads of a threadgroup share K and V.
  static constexpr Shape kShapes[] = {
      {"heads of 64, sliding", {4, 2, 64}, 50, 200, false, 1, kRound},
      {"heads of 128, two together", {8, 2, 128}, 0, 90, true, 1, kRound},
      {"heads of 128, four together", {16, 2, 128}, 40, 90, true, 1, kPrompt},
      {"heads of 256", {2, 2, 256}, 0, 90, true, 1, kRound},
      {"heads of 256, two together", {8, 2, 256}, 64, 100, true, 1, kRound},
      {"heads of 256, four together", {16, 4, 256}, 64, 100, false, 1, kRound},
      {"heads of 512", {2, 1, 512}, 0, 70, false, 1, kRound},
      {"heads of 512, two together", {16, 4, 512}, 0, 70, true, 1, kRound},
      {"a long context", {2, 1, 64}, 0, 2 * kKvRange + 100, true, 1, kRound},
      {"a long context in ranges", {2, 1, 64}, 0, 2 * kKvRange + 100, true, 4, kRound},
  };
  std::vector<Case> cases;
  for (const Shape& s : kShapes)
    cases.push_back({std::string("attention, ") + s.name, [s](Workbench& bench) {
                       return attention(bench, s.heads, s.window, s.positions, s.bf16, s.ranges, s.numeric);
                     }});
  return cases;
}

}  // namespace lapidary::metal::check
