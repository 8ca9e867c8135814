#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/row.hpp"
#include "metal/check/cases.hpp"
#include "metal/device_memory.hpp"

namespace lapidary::metal::check {
namespace {

using graph::Op;
using graph::RoundState;
using Ids = std::vector<std::int32_t>;

constexpr int kRows = graph::kMaxVerifyRows, kVocab = 1500;

// Philox4x32-10: the noise of a token at a place of the output.
std::uint32_t noise(std::uint64_t seed, std::int64_t index, std::uint32_t stream, std::int32_t token) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                        static_cast<std::uint32_t>(token) / 4, stream};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd2511f53} * c[0], b = std::uint64_t{0xcd9e8d57} * c[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
                                   static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
    std::copy_n(next, 4, c);
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return c[token % 4];
}

// How rows choose, and from what.
struct Choosing {
  graph::Sampling sampling{};
  Ids counts{};                     // [vocab]
  std::vector<std::uint32_t> mask{};  // of all rows
  Ids tokens{};                     // of the logits; none = all
  RoundState state{};
};

struct Choice {
  std::int32_t token = 0;
  double margin = INFINITY;  // how far the decisions were from another outcome, relative
};

// By the definition of the op.
Choice choose(const std::vector<float>& logits, const Choosing& from, int row) {
  const graph::Sampling& s = from.sampling;
  const auto count = static_cast<int>(logits.size());
  const std::int32_t* drafts = from.state.drafts.data();
  const auto token_at = [&](int place) { return from.tokens.empty() ? place : from.tokens[place]; };
  Doubles y;
  for (int place = 0; place < count; ++place) {
    const std::int32_t token = token_at(place);
    double value = logits[place];
    for (const auto& [biased, bias] : s.bias)
      if (biased == token) value += bias;
    int seen = from.counts.empty() ? 0 : from.counts[token];
    if (s.penalises()) seen += static_cast<int>(std::count(drafts, drafts + row, token));
    if (seen) value = (value > 0 ? value / s.repetition : value * s.repetition) - s.presence - double{s.frequency} * seen;
    if (!from.mask.empty() && !(from.mask[token / 32] >> token % 32 & 1)) value = -INFINITY;
    y.push_back(value);
  }
  std::vector<int> order(y.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int a, int b) { return y[a] != y[b] ? y[a] > y[b] : a < b; });
  Choice choice{.token = token_at(order[0]), .margin = y[order[0]] - y[order[1]]};
  if (s.temperature == 0) return choice;

  const auto weight = [&](int place) { return std::exp((y[place] - y[order[0]]) / s.temperature); };
  const auto decide = [&](double value, double threshold) {
    choice.margin = std::min(choice.margin, std::abs(value / threshold - 1));
  };
  choice.margin = INFINITY;
  std::size_t kept = order.size();
  if (s.top_k > 0 && static_cast<std::size_t>(s.top_k) < kept) {
    kept = static_cast<std::size_t>(s.top_k);
    decide(weight(order[kept - 1]), weight(order[kept]));
  }
  double total = 0, before = 0;
  for (std::size_t i = 0; i < kept; ++i) total += weight(order[i]);
  std::size_t nucleus = 0;
  while (nucleus < kept && (nucleus == 0 || before < s.top_p * total)) {
    before += weight(order[nucleus++]);
    if (s.top_p < 1) decide(before, s.top_p * total);
  }
  while (nucleus > 1 && weight(order[nucleus - 1]) < s.min_p) --nucleus;
  if (s.min_p > 0) decide(weight(order[nucleus - 1]), s.min_p);

  double best = INFINITY, second = INFINITY;
  for (std::size_t i = 0; i < nucleus; ++i) {
    const std::int32_t token = token_at(order[i]);
    const double e = -std::log((noise(s.seed, from.state.emitted + row, s.stream, token) + 0.5) * 0x1p-32);
    const double cost = e / weight(order[i]);
    if (cost < best) choice.token = token;
    second = std::min(second, std::max(best, cost));
    best = std::min(best, cost);
  }
  if (second < INFINITY) decide(second, best);
  return choice;
}

// Rows of a round whose choices leave no doubt: logits that do not are drawn again.
Finding sample(Workbench& bench, const Choosing& from, bool asked) {
  constexpr double kClear = 1e-4;
  Random random(1);
  const int count = from.tokens.empty() ? kVocab : static_cast<int>(from.tokens.size());
  std::vector<std::vector<float>> logits;
  Ids expected;
  while (static_cast<int>(logits.size()) < kRows) {
    logits.push_back(random.floats(count, -6.0f, 6.0f));
    const Choice choice = choose(logits.back(), from, static_cast<int>(logits.size()) - 1);
    if (choice.margin > kClear) expected.push_back(choice.token);
    else logits.pop_back();
  }
  Trial trial(bench, Op::sample, {.n = {count}}, kRows);
  trial.place_matters = true;
  trial.params.vocab = kVocab;
  trial.in(0, logits);
  if (!from.tokens.empty()) trial.in(1, std::vector<Ids>(kRows, from.tokens));
  trial.out(0, 1);
  trial.out(1, count, false);
  trial.out(2, count, false);
  trial.bound.states = bench.hold(std::vector{from.state});
  trial.bound.counts = bench.hold(from.counts);
  trial.bound.masks = bench.hold(from.mask);
  std::vector<layout::LogitBias> biases;
  for (const auto& [token, bias] : from.sampling.bias) biases.push_back({token, bias});
  trial.bound.biases = bench.hold(biases);
  const graph::Sampling& s = from.sampling;
  trial.run.seat_count = 1;
  trial.run.seats[0].samples = asked;
  trial.run.seats[0].sampling = {.repetition = s.repetition, .presence = s.presence, .frequency = s.frequency,
                               .temperature = s.temperature, .top_k = s.top_k, .top_p = s.top_p, .min_p = s.min_p,
                               .seed_low = static_cast<std::uint32_t>(s.seed),
                               .seed_high = static_cast<std::uint32_t>(s.seed >> 32), .stream = s.stream,
                               .bias_count = static_cast<int>(biases.size()), .has_counts = !from.counts.empty(),
                               .mask_words = static_cast<int>(from.mask.size()), .mask_stride_words = 0};
  return trial.examine([&](int row) {
    Expected one;
    one.ids({expected[row]});
    return one;
  });
}

RoundState some_state(Random& random, int drafted) {
  RoundState state{.length = 1000, .bonus = 77, .emitted = 5'000'000'000, .drafted = drafted};
  for (std::int32_t& draft : state.drafts) draft = static_cast<std::int32_t>(random.below(kVocab));
  return state;
}

Finding largest(Workbench& bench) { return sample(bench, {}, false); }

Finding noisy(Workbench& bench) {
  const graph::Sampling sampling{.temperature = 0.9f, .top_k = 40, .top_p = 0.93f, .min_p = 0.02f,
                                 .seed = 0x1234567890abcdef, .stream = 3};
  return sample(bench, {.sampling = sampling, .state = {.emitted = 5'000'000'000}}, true);
}

Finding penalised(Workbench& bench) {
  Random random(2);
  static constexpr std::pair<std::int32_t, float> kBias[] = {{3, 4.5f}, {1400, -2.0f}};
  Choosing from{.sampling = {.bias = kBias, .repetition = 1.3f, .presence = 0.4f, .frequency = 0.2f, .temperature = 1.1f,
                             .seed = 9},
                .counts = Ids(kVocab),
                .mask = std::vector<std::uint32_t>((kVocab + 31) / 32),
                .state = some_state(random, kRows - 1)};
  for (std::int32_t& count : from.counts) count = static_cast<std::int32_t>(random.below(3));
  for (std::uint32_t& word : from.mask) word = random.below(~0u);
  return sample(bench, from, true);
}

Finding listed(Workbench& bench) {
  Random random(3);
  const graph::Sampling sampling{.temperature = 0.7f, .top_p = 0.9f, .seed = 4};
  return sample(bench, {.sampling = sampling, .tokens = random.different(320, kVocab)}, true);
}

// Runs a step that has no rows of its own, twice: encoded and replayed. `same` compares what it left.
template <class Same>
Finding examine_state(Workbench& bench, const std::function<std::vector<Dispatch>()>& set_up, int rows, Same&& same) {
  Finding finding;
  for (const bool replayed : {false, true}) {
    const std::vector<Dispatch> dispatches = set_up();  // over memory as it was
    finding.device_s = bench.run(dispatches, rows, replayed);
    if (!same()) {
      finding.error = INFINITY;
      finding.problem = replayed ? "a replay gives other results" : "not what its definition says";
      break;
    }
  }
  return finding;
}

bool equal(const RoundState& a, const RoundState& b) {
  return a.length == b.length && a.bonus == b.bonus && a.emitted == b.emitted && a.drafted == b.drafted &&
         a.drafts == b.drafts && a.accepted == b.accepted;
}

bool equal(const graph::Row& a, const graph::Row& b) {
  return a.slot == b.slot && a.position == b.position && a.token == b.token && a.block_end == b.block_end &&
         a.soft == b.soft && a.begin == b.begin;
}

// A step over a state: in its second session, so that the first must stay as it is.
struct StateStep {
  Workbench& bench;
  graph::Dims dims{};
  graph::Step step{};
  layout::Step params{};
  layout::Run run{};
  BoundStep bound{};

  StateStep(Workbench& on, Op op, graph::RowSet rows, int row_count, const graph::Dims& d = {}) : bench(on), dims(d) {
    step.op = op;
    step.rows = rows;
    step.dims = &dims;
    params = params_of(step);
    run.slot = run.seats[0].slot = 1;
    run.seat_count = 1;
    run.row_count = run.output_count = row_count;
    bound.step = &step;
    bound.rows = row_count;
  }

  std::vector<Dispatch> dispatches(const RoundState& state) {
    bound.states = bench.hold(std::vector{RoundState{}, state});
    bound.params = bench.hold(&params, sizeof params);
    bound.run = bench.hold(&run, sizeof run);
    return dispatches_of(bound);
  }

  bool left(const RoundState& expected) const {
    const auto states = bench.read<RoundState>(bound.states, 2);
    return equal(states[0], RoundState{}) && equal(states[1], expected);
  }
};

Finding round_rows(Workbench& bench) {
  Random random(4);
  constexpr int kDrafted = 5;
  const RoundState state = some_state(random, kDrafted);
  StateStep step(bench, Op::round_rows, graph::RowSet::verify, kDrafted + 1);
  return examine_state(bench, [&] {
    step.bound.row_table = bench.hold(std::vector<graph::Row>(kRows));
    return step.dispatches(state);
  }, kDrafted + 1, [&] {
    bool same = step.left(state);
    const auto rows = bench.read<graph::Row>(step.bound.row_table, kRows);
    for (int i = 0; i < kRows; ++i) {
      const std::int32_t position = state.length + i, token = i == 0 ? state.bonus : state.drafts[i - 1];
      same = same && equal(rows[i], i <= kDrafted ? graph::Row{1, position, token, position} : graph::Row{});
    }
    return same;
  });
}

// One block of the second session, which sees positions from 40 on.
void seat_block(StateStep& step, int drafts) {
  step.run.block_rows = drafts + 1;
  step.run.seats[0].block = {.context_begin = 40, .pending_begin = 0, .pending_end = 0, .first = 0, .count = drafts + 1};
}

Finding block_rows(Workbench& bench) {
  Random random(8);
  constexpr int kDrafts = 4, kMask = 4;
  const RoundState state = some_state(random, 0);
  StateStep step(bench, Op::round_rows, graph::RowSet::block, kDrafts + 1);
  step.params.mask_token = kMask;
  seat_block(step, kDrafts);
  return examine_state(bench, [&] {
    step.bound.row_table = bench.hold(std::vector<graph::Row>(2 * kRows));
    return step.dispatches(state);
  }, kDrafts + 1, [&] {
    bool same = step.left(state);
    const auto rows = bench.read<graph::Row>(step.bound.row_table, 2 * kRows);
    for (int i = 0; i < 2 * kRows; ++i) {
      const std::int32_t r = i % kRows, position = state.length + r;
      const graph::Row expected{.slot = 1, .position = position, .token = r == 0 ? state.bonus : kMask,
                                .block_end = i < kRows ? state.length + kDrafts : position, .begin = 40};
      same = same && equal(rows[i], r <= kDrafts ? expected : graph::Row{});
    }
    return same;
  });
}

Finding keep_block(Workbench& bench) {
  Random random(9);
  const RoundState state = some_state(random, 0);
  RoundState expected = state;
  expected.drafted = 3;
  for (int i = 0; i < 3; ++i) expected.drafts[i] = 42 + i;
  StateStep step(bench, Op::keep_block, graph::RowSet::block, 4);
  seat_block(step, 3);
  return examine_state(bench, [&] {
    step.bound.in[0] = bench.hold(Ids{7, 42, 43, 44});
    step.params.in[0] = {0, 4, 0};
    return step.dispatches(state);
  }, 4, [&] { return step.left(expected); });
}

// Features of positions that wait, around the end of their ring.
Finding pending_rows(Workbench& bench) {
  Random random(10);
  constexpr int kWidth = 200, kBegin = graph::kPendingRows - 3, kCount = 7;
  const auto rings = random.floats(2 * graph::kPendingRows * kWidth, -1.0f, 1.0f);
  const RoundState state = some_state(random, 0);
  StateStep step(bench, Op::round_rows, graph::RowSet::pending, kCount);
  step.run.seats[0].block = {.context_begin = 0, .pending_begin = kBegin, .pending_end = kBegin + kCount, .first = 0, .count = 0};
  return examine_state(bench, [&] {
    step.bound.row_table = bench.hold(std::vector<graph::Row>(graph::kPendingRows));
    step.bound.in[0] = bench.hold(rings);
    step.params.in[0] = {graph::kPendingRows * kWidth * 4, kWidth * 4, 0};
    step.bound.out[0] = bench.hold(std::vector<float>(kCount * kWidth));
    step.params.out[0] = {0, kWidth * 4, 0};
    return step.dispatches(state);
  }, kCount, [&] {
    bool same = step.left(state);
    const auto rows = bench.read<graph::Row>(step.bound.row_table, kCount);
    const auto features = bench.read<float>(step.bound.out[0], kCount * kWidth);
    for (int i = 0; i < kCount; ++i) {
      const int position = kBegin + i, from = (graph::kPendingRows + position % graph::kPendingRows) * kWidth;
      same = same && equal(rows[i], {.slot = 1, .position = position, .block_end = position}) &&
             std::equal(features.begin() + i * kWidth, features.begin() + (i + 1) * kWidth, rings.begin() + from);
    }
    return same;
  });
}

Finding keep_draft(Workbench& bench) {
  Random random(5);
  const RoundState state = some_state(random, 2);
  RoundState expected = state;
  expected.drafts[2] = 42;
  expected.drafted = 3;
  StateStep step(bench, Op::keep_draft, graph::RowSet::draft, 1);
  return examine_state(bench, [&] {
    step.bound.in[0] = bench.hold(Ids{42});
    step.params.in[0] = {0, 4, 0};
    return step.dispatches(state);
  }, 1, [&] { return step.left(expected); });
}

Finding accept(Workbench& bench) {
  Random random(6);
  constexpr int kDrafted = 6, kAccepted = 3, kHidden = 300, kFeatures = 500, kRing = graph::kPendingRows * kFeatures;
  const RoundState state = some_state(random, kDrafted);
  const auto hidden = random.floats((kDrafted + 1) * kHidden, -1.0f, 1.0f);
  const auto features = random.floats((kDrafted + 1) * kFeatures, -1.0f, 1.0f);
  std::vector<float> expected_rings(2 * kRing);
  for (int i = 0; i <= kAccepted; ++i)
    std::copy_n(features.begin() + i * kFeatures, kFeatures,
                expected_rings.begin() + kRing + (state.length + i) % graph::kPendingRows * kFeatures);
  Ids chosen(state.drafts.begin(), state.drafts.begin() + kDrafted + 1);
  chosen[kAccepted] = (chosen[kAccepted] + 1) % kVocab;
  chosen[0] = chosen[2] = state.drafts[0];
  RoundState before = state;
  before.drafts[2] = before.drafts[0];
  RoundState expected = before;
  expected.accepted = kAccepted;
  expected.bonus = chosen[kAccepted];
  expected.length = state.length + kAccepted + 1;
  expected.emitted += kAccepted + 1;
  expected.drafted = 0;
  Ids counts(2 * kVocab, 1), expected_counts = counts;
  for (int i = 0; i <= kAccepted; ++i) ++expected_counts[kVocab + chosen[i]];

  StateStep step(bench, Op::accept, graph::RowSet::verify, kDrafted + 1, {.n = {kHidden}});
  step.params.vocab = kVocab;
  step.run.seats[0].samples = step.run.seats[0].sampling.has_counts = 1;
  step.run.place = 1;
  return examine_state(bench, [&] {
    std::vector<graph::Row> rows;
    for (int i = 0; i <= kDrafted; ++i) rows.push_back({1, state.length + i, 0, state.length + i});
    step.bound.row_table = bench.hold(rows);
    step.bound.in[0] = bench.hold(chosen);
    step.params.in[0] = {0, 4, 0};
    step.bound.in[1] = bench.hold(hidden);
    step.params.in[1] = {0, kHidden * 4, 0};
    step.bound.out[0] = bench.hold(std::vector<float>(2 * kHidden));
    step.params.out[0] = {kHidden * 4, 0, 0};
    step.bound.in[2] = bench.hold(features);
    step.params.in[2] = {0, kFeatures * 4, 0};
    step.bound.out[1] = bench.hold(std::vector<float>(2 * kRing));
    step.params.out[1] = {kRing * 4, kFeatures * 4, 0};
    step.bound.counts = bench.hold(counts);
    step.bound.results = bench.hold(std::vector<graph::RoundResult>(2 * layout::kSeatsMax));
    return step.dispatches(before);
  }, kDrafted + 1, [&] {
    const auto carry = bench.read<float>(step.bound.out[0], 2 * kHidden);
    const auto results = bench.read<graph::RoundResult>(step.bound.results, 2 * layout::kSeatsMax);
    const graph::RoundResult& result = results[layout::kSeatsMax];
    return step.left(expected) && bench.read<float>(step.bound.out[1], 2 * kRing) == expected_rings && results[0].accepted == 0 && result.accepted == kAccepted &&
           std::ranges::equal(result.chosen(), std::span(chosen).first(kAccepted + 1)) && bench.read<std::int32_t>(step.bound.counts, 2 * kVocab) == expected_counts &&
           std::equal(carry.begin() + kHidden, carry.end(), hidden.begin() + kAccepted * kHidden) &&
           std::all_of(carry.begin(), carry.begin() + kHidden, [](float x) { return x == 0; });
  });
}

Finding begin_of_run(Workbench& bench) {
  Random random(7);
  constexpr int kWords = 40, kBiases = 5;
  layout::Run run{.slot = 2, .seat = 0, .row_count = 300, .first_output = 1, .output_count = 3, .host_rows = 300, .place = 3,
                  .seat_count = 1, .block_rows = 0, .waiting_rows = 0, .columns = 7, .input_rows = 9, .seats = {}};
  run.seats[0] = {.slot = 2, .first = 0, .count = 3, .drafts = 0, .samples = 1, .sampling = {}, .block = {}};
  layout::Sampling& sampling = run.seats[0].sampling;
  sampling.temperature = 0.5f;
  sampling.mask_words = sampling.mask_stride_words = kWords;
  sampling.bias_count = kBiases;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(run.row_count) * sizeof(layout::Row) / sizeof(std::int32_t)), masks(kWords * 3), biases(kBiases * 2);
  for (auto* values : {&rows, &masks, &biases})
    for (std::int32_t& value : *values) value = static_cast<std::int32_t>(random.below(~0u));
  RunPlaces to;
  return examine_state(bench, [&] {
    const RunPlaces from{bench.hold(&run, sizeof run), bench.hold(rows), bench.hold(masks), bench.hold(biases)};
    const auto room = [&](std::size_t words) { return bench.hold(std::vector<std::int32_t>(words)); };
    to = {room(sizeof run / 4), room(rows.size()), room(masks.size()), room(biases.size())};
    return std::vector{begin_run(from, to)};
  }, 1, [&] {
    const auto has = [&](const Slice& slice, const std::vector<std::int32_t>& expected) {
      return bench.read<std::int32_t>(slice, expected.size()) == expected;
    };
    return std::memcmp(buffer_of(to.run)->contents(), &run, sizeof run) == 0 && has(to.rows, rows) && has(to.masks, masks) &&
           has(to.biases, biases);
  });
}

}  // namespace

std::vector<Case> choice_cases() {
  return {{"sample, the largest", largest},
          {"sample with noise", noisy},
          {"sample with penalties and a mask", penalised},
          {"sample from a list", listed},
          {"round_rows", round_rows},
          {"round_rows of a block", block_rows},
          {"round_rows of what waits", pending_rows},
          {"keep_draft", keep_draft},
          {"keep_block", keep_block},
          {"accept", accept},
          {"begin_run", begin_of_run}};
}

}  // namespace lapidary::metal::check
