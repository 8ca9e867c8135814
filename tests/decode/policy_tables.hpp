// Rounds that happen only on paper: recorded cost tables, acceptance by dice, and what the policy makes of them.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "decode/policy.hpp"
#include "support/random.hpp"

namespace lapidary::test {

using Widths = std::array<double, decode::kMaxDrafts + 1>;  // cost of 1..8 rows, in steps

struct CostTable {
  std::string_view name;
  Widths steps;
};

inline constexpr CostTable kCostTables[] = {
    {"dense", {1, 0.99, 1.13, 1.43, 1.75, 2.1, 2.5, 2.84}},
    {"dense, whole round", {1, 1.17, 1.34, 1.51, 1.68, 1.85, 2.02, 2.19}},
    {"mixture of experts", {1, 1.35, 1.67, 1.98, 2.27, 2.54, 2.79, 3.02}},
    {"processor", {1, 1.4, 1.75, 2.05, 2.5, 2.8, 3.1, 3.4}},
    {"uneven", {1, 1.80, 2.57, 1.45, 2.5, 3.2, 3.9, 4.5}},
    {"linear", {1, 2, 3, 4, 5, 6, 7, 8}},
};
inline constexpr const CostTable& kWholeRound = kCostTables[1];
inline constexpr const CostTable& kMixture = kCostTables[2];
inline constexpr const CostTable& kLinear = kCostTables[5];

inline constexpr double kDraftSteps[] = {0, 0.01, 0.11, 0.39, 1, 3};

using Depths = std::array<double, decode::kMaxDrafts>;  // acceptance of drafts 1..7 when those before were accepted
constexpr Depths same(double a) { return {a, a, a, a, a, a, a}; }
inline constexpr Depths kAcceptances[] = {
    same(0),
    same(0.2),
    same(0.4),
    same(0.6),
    same(0.8),
    same(0.9),
    same(1),
    {0.84, 0.71, 0.64, 0.70, 0.70, 0.70, 0.70},
    {0.92, 0.85, 0.86, 0.85, 0.85, 0.85, 0.85},
    {0.60, 0.55, 0.55, 0.55, 0.55, 0.55, 0.55},
};

inline double expected_tokens(const Depths& acceptance, int k) {
  double tokens = 1, all_accepted = 1;
  for (int i = 0; i < k; ++i) tokens += all_accepted *= acceptance[i];
  return tokens;
}

// Tokens per step of the best fixed k, 0 included. block: one run makes all drafts.
inline double best_fixed(const CostTable& table, double draft_steps, const Depths& acceptance, bool block = false) {
  double best = 1;
  for (int k = 1; k <= decode::kMaxDrafts; ++k) {
    best = std::max(best, expected_tokens(acceptance, k) / (table.steps[k] + (block ? 1 : k) * draft_steps));
  }
  return best;
}

struct SimulatedSource {
  double draft_steps = 0;
  std::function<double(int token, int position)> acceptance;                          // position 0..6
  std::function<int(int token)> offer = [](int) { return decode::kMaxDrafts; };
  bool block = false;                 // one run makes all drafts
  double waiting_steps = 0;           // what a run costs besides for each token since the last one, up to 64
};

struct Simulation {
  static constexpr double kStep_s = 0.0371;

  std::function<const CostTable&(int token)> table;
  std::vector<SimulatedSource> sources;
  std::function<double(int token)> slowness = [](int) { return 1.0; };       // of everything
  std::function<double(Random&)> noise = [](Random&) { return 1.0; };
  std::function<void(decode::Policy&, int token)> before_round = [](decode::Policy&, int) {};
  bool runs_ahead = false;  // a round is chosen before the one before it is observed, where the policy does

  struct Round {
    int token = 0;  // the first of the round
    std::vector<int> offers;
    decode::Decision decision;
    bool ahead = false;  // chosen before the round before it was observed
    int accepted = 0;
    double steps = 0;  // what it took without noise, in steps of that time
  };

  struct Result {
    std::vector<Round> rounds;
    double worst_loss_steps = 0;  // the most that any run of rounds lost beyond 1.5 % of its time

    // Tokens per step over the rounds from a token on, with as many tokens as such rounds give on average.
    double rate(const Depths& acceptance, int from_token = 0) const {
      double tokens = 0, steps = 0;
      for (const Round& round : rounds) {
        if (round.token < from_token) continue;
        tokens += expected_tokens(acceptance, round.decision.k);
        steps += round.steps;
      }
      return tokens / steps;
    }
  };

  Result run(decode::Policy& policy, int tokens, std::uint64_t seed) const {
    Random random(seed);
    Result result;
    double loss = 0, least_loss = 0;
    int last_run = 0;  // the token at which drafts were made last
    std::optional<decode::Decision> chosen_ahead;
    for (int token = 0; token < tokens;) {
      before_round(policy, token);
      Round round{.token = token, .offers = {}, .decision = {}};
      for (const SimulatedSource& source : sources) round.offers.push_back(source.offer(token));
      round.ahead = chosen_ahead.has_value();
      round.decision = chosen_ahead ? *chosen_ahead : policy.choose(round.offers);
      if (runs_ahead) chosen_ahead = policy.choose_ahead(round.offers, round.decision);
      const auto [s, k] = round.decision;

      double draft_steps = 0;
      if (k > 0) {
        draft_steps = (sources[s].block ? 1 : k) * sources[s].draft_steps + sources[s].waiting_steps * std::min(64, token - last_run);
        last_run = token;
      }
      const double verify_steps = table(token).steps[k];
      while (round.accepted < k && random.uniform(0, 1) < sources[s].acceptance(token, round.accepted)) ++round.accepted;
      round.steps = verify_steps + draft_steps;

      const double step_s = kStep_s * slowness(token) * noise(random);
      policy.observe({.source = s, .drafted = k, .accepted = round.accepted, .draft_s = step_s * draft_steps,
                      .verify_s = step_s * verify_steps});

      loss += 0.985 * round.steps - (round.accepted + 1);
      result.worst_loss_steps = std::max(result.worst_loss_steps, loss - least_loss);
      least_loss = std::min(least_loss, loss);
      token += round.accepted + 1;
      result.rounds.push_back(std::move(round));
    }
    return result;
  }
};

// One source of steady acceptance that always offers as much as possible.
inline Simulation steady(const CostTable& table, double draft_steps, const Depths& acceptance) {
  return {.table = [&table](int) -> const CostTable& { return table; },
          .sources = {{.draft_steps = draft_steps, .acceptance = [acceptance](int, int i) { return acceptance[i]; }}}};
}

}  // namespace lapidary::test
