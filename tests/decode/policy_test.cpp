// What the policy promises, on recorded cost tables: it never loses much, and it finds what pays.
#include <boost/ut.hpp>

#include <cmath>
#include <functional>
#include <memory>

#include "decode/policy.hpp"
#include "decode/policy_tables.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::policy_test {
namespace {

using namespace boost::ut;
using decode::Decision;
using decode::kMaxDrafts;
using decode::RoundCosts;

constexpr int kTokens = 3000;
constexpr double kMaxLoss_steps = 8.0;

std::vector<decode::SourceCost> costs_of(const decode::PolicyOptions& options) {
  std::vector<decode::SourceCost> costs;
  for (const decode::SourcePrior& source : options.sources) costs.push_back({source.draft_steps, source.block});
  return costs;
}

// The only text of an engine.
struct Engine {
  std::unique_ptr<RoundCosts> costs;
};
struct Policy : Engine, decode::Policy {
  explicit Policy(const decode::PolicyOptions& options)
      : Engine{std::make_unique<RoundCosts>(costs_of(options))}, decode::Policy(options, *costs) {}
};

// The prior knows nothing of what the tables hold.
Policy one_source() { return Policy({.sources = {{.draft_steps = 0.1, .acceptance = 0.7}}}); }

Decision choose(Policy& policy, int offer) { return policy.choose(std::span(&offer, 1)); }

// The rounds of `count` tokens without acceptance.
void reject(Policy& policy, const CostTable& table, int count) {
  for (int i = 0; i < count; ++i) {
    const auto [source, k] = choose(policy, kMaxDrafts);
    policy.observe({.source = source, .drafted = k, .draft_s = 0.11 * k, .verify_s = table.steps[k]});
  }
}

// In a slow build each table with one cost of drafts.
template <class Check>
void for_all_costs(Check&& check) {
  for (std::size_t t = 0; t < std::size(kCostTables); ++t)
    for (std::size_t d = 0; d < std::size(kDraftSteps); ++d)
      if (!kSlowBuild || d == (t + 1) % std::size(kDraftSteps)) check(kCostTables[t], kDraftSteps[d]);
}

const suite<"policy, losses"> suite_of_losses = [] {
  using Acceptance = std::function<double(int token, int position)>;
  std::vector<Acceptance> acceptances = {
      [](int token, int) { return token < 1000 ? 1.0 : 0.0; },
      [](int token, int) { return token < 1000 ? 0.0 : 1.0; },
      [](int token, int) { return token / 100 % 2 ? 0.0 : 1.0; },
      [](int token, int) { return token / 400 % 2 ? 0.0 : 1.0; },
      [](int token, int) { return token / 400 % 2 ? 0.1 : 0.85; },
  };
  for (const Depths& depths : kAcceptances) acceptances.push_back([depths](int, int i) { return depths[i]; });

  struct Slowness {
    std::string_view name;
    std::function<double(int token)> of;
  };
  const Slowness slownesses[] = {
      {"even", [](int) { return 1.0; }},
      {"slowing down", [](int token) { return 1 + std::clamp(token - 500, 0, 1000) / 1000.0; }},
      {"speeding up", [](int token) { return 2 - std::clamp(token - 500, 0, 1000) / 1000.0; }},
      {"suddenly slower", [](int token) { return token < 700 ? 1.0 : 2.0; }},
  };
  for (const Slowness& slowness : slownesses)
    for (const bool ahead : {false, true}) {
      const std::string name = std::string(slowness.name) + (ahead ? ", chosen ahead" : "");
      boost::ut::test("no run of rounds loses more than 8 steps and 1.5 %, " + name) = [&, ahead] {
        for_all_costs([&](const CostTable& table, double draft_steps) {
          for (std::size_t i = 0; i < acceptances.size(); ++i) {
            Simulation simulation = steady(table, draft_steps, same(0));
            simulation.sources[0].acceptance = acceptances[i];
            simulation.slowness = slowness.of;
            simulation.runs_ahead = ahead;
            Policy policy = one_source();
            const double loss_steps = simulation.run(policy, kTokens, i).worst_loss_steps;
            expect(loss_steps <= kMaxLoss_steps) << table.name << draft_steps << i << loss_steps;
          }
        });
      };
    }

  "nor with a source that makes a block at once, and then has to catch up with the text"_test = [&] {
    for_all_costs([&](const CostTable& table, double draft_steps) {
      for (std::size_t i = 0; i < acceptances.size(); ++i)
        for (const double waiting_steps : {0.0, 0.002}) {
          Simulation simulation = steady(table, draft_steps, same(0));
          simulation.sources[0].acceptance = acceptances[i];
          simulation.sources[0].block = true;
          simulation.sources[0].waiting_steps = waiting_steps;
          Policy policy({.sources = {{.draft_steps = 0.3, .acceptance = 0.7, .block = true}}});
          const double loss_steps = simulation.run(policy, kTokens, i).worst_loss_steps;
          expect(loss_steps <= kMaxLoss_steps) << table.name << draft_steps << i << waiting_steps << loss_steps;
        }
    });
  };

  // Rounds of more than one row become dearer by 35 %, plain ones do not.
  "a change of the wider rounds alone costs no more"_test = [] {
    for (const CostTable& table : {kCostTables[0], kCostTables[1], kCostTables[2], kCostTables[3]}) {
      std::vector<CostTable> tables;
      for (int percent = 0; percent <= 35; ++percent) {
        tables.push_back(table);
        for (int k = 1; k <= kMaxDrafts; ++k) tables.back().steps[k] *= 1 + percent / 100.0;
      }
      for (const double draft_steps : kDraftSteps) {
        for (const double high : {0.4, 0.6, 0.85, 1.0}) {
          Simulation simulation = steady(table, draft_steps, same(0));
          simulation.table = [&](int token) -> const CostTable& { return tables[std::clamp((token - 500) / 20, 0, 35)]; };
          simulation.sources[0].acceptance = [high](int token, int) { return token / 400 % 2 ? 0.1 : high; };
          for (const bool ahead : {false, true}) {
            simulation.runs_ahead = ahead;
            Policy policy = one_source();
            const double loss_steps = simulation.run(policy, kTokens, 1).worst_loss_steps;
            expect(loss_steps <= kMaxLoss_steps) << table.name << draft_steps << high << ahead << loss_steps;
          }
        }
      }
    }
  };

  "new texts and landmarks do not lift the limit"_test = [] {
    for_all_costs([](const CostTable& table, double draft_steps) {
      Simulation simulation = steady(table, draft_steps, same(0.1));
      simulation.before_round = [](decode::Policy& policy, int token) {
        if (token % 40 == 0) policy.begin_request();
        policy.landmark();
      };
      Policy policy = one_source();
      const double loss_steps = simulation.run(policy, kTokens, 1).worst_loss_steps;
      expect(loss_steps <= kMaxLoss_steps) << table.name << draft_steps << loss_steps;
    });
  };

  "a drafter much dearer than believed is tried with one draft"_test = [] {
    const Simulation simulation = steady(kLinear, 6, same(0));
    Policy policy({.sources = {{.draft_steps = 0.01, .acceptance = 0.99}}});
    const auto result = simulation.run(policy, kTokens, 1);
    expect(result.worst_loss_steps <= kMaxLoss_steps) << result.worst_loss_steps;
    expect(std::any_of(result.rounds.begin(), result.rounds.end(), [](const auto& round) { return round.decision.k == 1; }));
    expect(std::all_of(result.rounds.begin(), result.rounds.end(), [](const auto& round) { return round.decision.k <= 1; }));
  };
};

const suite<"policy, gains"> suite_of_gains = [] {
  // Of what the best fixed k reaches.
  const auto share_of_best = [](const CostTable& table, double draft_steps, const Depths& acceptance,
                                const Simulation& simulation, int seeds, int tokens = kTokens) {
    double rate = 0;
    for (int seed = 0; seed < seeds; ++seed) {
      Policy policy = one_source();
      rate += simulation.run(policy, tokens, seed).rate(acceptance) / seeds;
    }
    return rate / best_fixed(table, draft_steps, acceptance);
  };

  "steady texts get 0.95 of the best fixed k"_test = [&] {
    for_all_costs([&](const CostTable& table, double draft_steps) {
      for (const Depths& acceptance : kAcceptances) {
        const double share = share_of_best(table, draft_steps, acceptance, steady(table, draft_steps, acceptance), 3);
        expect(share >= 0.95) << table.name << draft_steps << acceptance[0] << share;
      }
    });
  };

  // A trial of four rounds may be unlucky, and the next one comes after 1024 tokens.
  "also with blocks, and beside an assistant with the better of the two"_test = [&] {
    double sum = 0;
    int count = 0;
    for_all_costs([&](const CostTable& table, double draft_steps) {
      if (draft_steps > 0.5) return;  // no published one is as dear
      for (const Depths& acceptance : kAcceptances)
        for (const double of_assistant : {0.3, 0.75}) {
          Simulation simulation = steady(table, draft_steps, acceptance);
          simulation.sources[0].block = true;
          const decode::SourcePrior block{.draft_steps = draft_steps, .acceptance = 0.7, .block = true};
          const double best = best_fixed(table, draft_steps, acceptance, true);
          Policy alone({.sources = {block}});
          const double rate = simulation.run(alone, kTokens, 1).rate(acceptance);
          expect(rate >= 0.93 * best) << table.name << draft_steps << acceptance[0] << rate << best;

          simulation.sources.push_back({.draft_steps = 0.11, .acceptance = [=](int, int) { return of_assistant; }});
          const double better = std::max(best, best_fixed(table, 0.11, same(of_assistant)));
          double tokens = 0, steps = 0;
          for (const std::uint64_t seed : {1, 2, 3, 4}) {
            Policy both({.sources = {block, {.draft_steps = 0.11, .acceptance = 0.7}}});
            for (const auto& round : simulation.run(both, kTokens, seed).rounds) {
              tokens += expected_tokens(round.decision.source == 0 ? acceptance : same(of_assistant), round.decision.k);
              steps += round.steps;
            }
          }
          const double share = tokens / steps / better;
          expect(share >= 0.85) << table.name << draft_steps << acceptance[0] << of_assistant << share;
          sum += share;
          ++count;
        }
    });
    expect(sum / count >= 0.975) << sum / count;
  };

  "in 100 tokens it learns enough for 0.9 of what can be gained"_test = [&] {
    double sum = 0;
    int count = 0;
    for_all_costs([&](const CostTable& table, double draft_steps) {
      for (const Depths& acceptance : kAcceptances) {
        if (best_fixed(table, draft_steps, acceptance) < 1.4) continue;
        sum += share_of_best(table, draft_steps, acceptance, steady(table, draft_steps, acceptance), 8, 100);
        ++count;
      }
    });
    expect(sum / count >= 0.9) << sum / count;
  };

  // But for rounds so dear that the account could not bear two that fail.
  "also when rounds are chosen ahead, as most of them then are"_test = [&] {
    constexpr double kDear_steps = 4;
    for_all_costs([&](const CostTable& table, double draft_steps) {
      for (const Depths& acceptance : kAcceptances) {
        Simulation simulation = steady(table, draft_steps, acceptance);
        simulation.runs_ahead = true;
        const double share = share_of_best(table, draft_steps, acceptance, simulation, 3);
        expect(share >= 0.95) << table.name << draft_steps << acceptance[0] << share;
        Policy policy = one_source();
        const auto rounds = simulation.run(policy, kTokens, 1).rounds;
        const auto cheap = std::ranges::count_if(rounds, [&](const auto& round) { return round.steps < kDear_steps; });
        const auto ahead = std::ranges::count_if(rounds, [](const auto& round) { return round.ahead; });
        if (2 * cheap < std::ssize(rounds)) continue;
        expect(4 * ahead >= 3 * std::ssize(rounds)) << table.name << draft_steps << acceptance[0] << ahead << rounds.size();
      }
    });
  };

  "also while everything slows down to the half"_test = [&] {
    for_all_costs([&](const CostTable& table, double draft_steps) {
      for (const Depths& acceptance : kAcceptances) {
        Simulation simulation = steady(table, draft_steps, acceptance);
        simulation.slowness = [](int token) { return 1 + std::clamp(token - 500, 0, 1000) / 1000.0; };
        const double share = share_of_best(table, draft_steps, acceptance, simulation, 2);
        expect(share >= 0.93) << table.name << draft_steps << acceptance[0] << share;
      }
    });
  };

  "noise of 10 % and rounds that take five times as long do little harm"_test = [&] {
    double sum = 0;
    int count = 0;
    for_all_costs([&](const CostTable& table, double draft_steps) {
      for (const Depths& acceptance : kAcceptances) {
        Simulation simulation = steady(table, draft_steps, acceptance);
        simulation.noise = [](Random& random) { return random.uniform(0.9, 1.1) * (random.chance(50) ? 5 : 1); };
        const double share = share_of_best(table, draft_steps, acceptance, simulation, 2);
        expect(share >= 0.88) << table.name << draft_steps << acceptance[0] << share;
        sum += share;
        ++count;
      }
    });
    expect(sum / count >= 0.97) << sum / count;
  };

  // Others have the machine for seven rounds or so, then it is ours for as long.
  "nor do others who slow everything down in spells"_test = [&] {
    double sum = 0, worst_loss_steps = 0;
    int count = 0;
    for_all_costs([&](const CostTable& table, double draft_steps) {
      for (const Depths& acceptance : kAcceptances) {
        Simulation simulation = steady(table, draft_steps, acceptance);
        bool slow = false;
        simulation.noise = [&slow](Random& random) {
          if (random.chance(7)) slow = !slow;
          return random.uniform(0.97, 1.05) * (slow ? 1.6 : 1);
        };
        Policy policy = one_source();
        const auto result = simulation.run(policy, kTokens, 2);
        sum += result.rate(acceptance) / best_fixed(table, draft_steps, acceptance);
        worst_loss_steps = std::max(worst_loss_steps, result.worst_loss_steps);
        ++count;
      }
    });
    expect(sum / count >= 0.965) << sum / count;
    expect(worst_loss_steps <= 2 * kMaxLoss_steps) << worst_loss_steps;
  };

  // The longest wait is 1024 tokens.
  "it finds its way back when drafts are accepted again"_test = [] {
    for_all_costs([](const CostTable& table, double draft_steps) {
      const double best = best_fixed(table, draft_steps, same(1));
      if (best < 1.1) return;
      Simulation simulation = steady(table, draft_steps, same(1));
      simulation.sources[0].acceptance = [](int token, int) { return token < 1000 ? 0.0 : 1.0; };
      Policy policy = one_source();
      const double rate = simulation.run(policy, 5000, 1).rate(same(1), 1000 + 1280);
      expect(rate >= 0.9 * best) << table.name << draft_steps << rate << best;
    });
  };

  "and however long they were not"_test = [] {
    Simulation simulation = steady(kMixture, 0.11, same(1));
    simulation.sources[0].acceptance = [](int token, int) { return token < 10000 ? 0.0 : 1.0; };
    Policy policy = one_source();
    const double rate = simulation.run(policy, 14000, 1).rate(same(1), 10000 + 1280);
    expect(rate >= 0.9 * best_fixed(kMixture, 0.11, same(1))) << rate;
  };

  "what was dear once gets another chance"_test = [] {
    Simulation simulation = steady(kWholeRound, 0.01, same(0.9));
    simulation.table = [](int token) -> const CostTable& { return token < 1000 ? kLinear : kWholeRound; };
    Policy policy = one_source();
    const double rate = simulation.run(policy, 10000, 1).rate(same(0.9), 7000);
    const double best = best_fixed(kWholeRound, 0.01, same(0.9));
    expect(rate >= 0.95 * best) << rate << best;
  };
};

const suite<"policy, sources"> suite_of_sources = [] {
  // How often `source` drafted where the second one did or did not offer, after a beginning.
  const auto share_of = [](const Simulation::Result& result, int source, bool second_offers) {
    int drafted = 0, all = 0;
    for (const auto& round : result.rounds) {
      if (round.token < 500 || (round.offers[1] > 0) != second_offers || round.decision.k == 0) continue;
      drafted += round.decision.source == source;
      ++all;
    }
    return all > 0 ? static_cast<double>(drafted) / all : -1;
  };
  const auto two_sources = [] {
    return Policy({.sources = {{.draft_steps = 0.1, .acceptance = 0.7}, {.draft_steps = 0, .acceptance = 0.5}}});
  };
  const auto simulate = [](double first_steps, double first, double second, std::function<int(int)> second_offer) {
    Simulation simulation = steady(kMixture, first_steps, same(first));
    const auto acceptance = [second](int, int) { return second; };
    simulation.sources.push_back({.draft_steps = 0, .acceptance = acceptance, .offer = second_offer});
    return simulation;
  };
  const auto now_and_then = [](int token) { return token / 37 % 3 == 0 ? 5 : 0; };

  "the better source of each round drafts"_test = [&] {
    Policy policy = two_sources();
    const auto result = simulate(0.11, 0.8, 0.9, now_and_then).run(policy, kTokens, 1);
    expect(share_of(result, 1, true) >= 0.9) << share_of(result, 1, true);
    expect(share_of(result, 0, false) == 1.0_d);
  };

  "a source that is worse does not draft just because it offers"_test = [&] {
    Policy policy = two_sources();
    const auto result = simulate(0.11, 0.8, 0.2, [](int) { return 7; }).run(policy, kTokens, 1);
    expect(share_of(result, 0, true) >= 0.9) << share_of(result, 0, true);
  };

  "a source that was worse may become the better one"_test = [&] {
    Policy policy = two_sources();
    Simulation simulation = simulate(0.11, 0.8, 0, [](int) { return 7; });
    simulation.sources[1].acceptance = [](int token, int) { return token < 1000 ? 0.5 : 0.95; };
    auto result = simulation.run(policy, 5000, 1);
    std::erase_if(result.rounds, [](const auto& round) { return round.token < 3000; });
    expect(share_of(result, 1, true) >= 0.9) << share_of(result, 1, true);
  };

  "one source is off while the other one pays"_test = [&] {
    Policy policy = two_sources();
    const auto result = simulate(3, 0.9, 0.9, now_and_then).run(policy, kTokens, 1);
    expect(share_of(result, 1, true) >= 0.9) << share_of(result, 1, true);
    int dear = 0;
    for (const auto& round : result.rounds) dear += round.decision.source == 0;
    expect(dear > 0 && dear < 40) << dear;
    expect(result.worst_loss_steps <= kMaxLoss_steps) << result.worst_loss_steps;
  };

  "trials of two others take little of what a source gains, in short texts too"_test = [] {
    double sum = 0;
    int count = 0;
    for (const CostTable& table : {kCostTables[1], kCostTables[2], kCostTables[3], kCostTables[4]})
      for (const double draft_steps : {0.11, 0.17}) {
        const auto rate = [&](bool alone) {  // of texts of 40 tokens
          Simulation simulation = steady(table, draft_steps, same(0.85));
          decode::PolicyOptions options{.sources = {{.draft_steps = draft_steps}}};
          if (!alone) {
            simulation.sources.push_back({.draft_steps = 0.4, .acceptance = [](int, int) { return 0.1; }, .block = true});
            simulation.sources.push_back({.draft_steps = 0, .acceptance = [](int, int) { return 0.3; }, .offer = [](int token) { return token / 7 % 3 == 2 ? 5 : 0; }});
            options.sources.push_back({.draft_steps = 0.4, .block = true});
            options.sources.push_back({});
          }
          double tokens = 0, steps = 0;
          for (std::uint64_t seed = 0; seed < 50; ++seed) {
            Policy policy(options);
            for (const auto& round : simulation.run(policy, 40, seed).rounds) tokens += round.accepted + 1, steps += round.steps;
          }
          return tokens / steps;
        };
        sum += rate(false) / rate(true);
        ++count;
      }
    expect(sum / count >= 0.9) << sum / count;
  };

  "no more is drafted than offered, nor than kmax"_test = [] {
    Policy policy({.sources = {{.draft_steps = 0, .acceptance = 0.9}}, .kmax = 4});
    Simulation simulation = steady(kWholeRound, 0, same(1));
    simulation.sources[0].offer = [](int token) { return token / 10 % (kMaxDrafts + 1); };
    int deepest = 0;
    for (const auto& round : simulation.run(policy, kTokens, 1).rounds) {
      expect(round.decision.k <= round.offers[0] && (round.decision.k == 0) == (round.decision.source < 0));
      deepest = std::max(deepest, round.decision.k);
    }
    expect(deepest == 4_i);
  };
};

const suite<"policy"> suite_of_policy = [] {
  "the first rounds are plain"_test = [] {
    Policy policy = one_source();
    expect(choose(policy, kMaxDrafts).k == 0_i);
    expect(policy.why_plain() == "measuring");
    policy.observe({.verify_s = 1});
    expect(choose(policy, kMaxDrafts).k == 0_i);
    policy.observe({.verify_s = 1});
    expect(choose(policy, kMaxDrafts).k == 1_i);
    expect(policy.why_plain() == "");
  };

  "ahead it chooses the same again, or one plain round to measure"_test = [] {
    const int all = kMaxDrafts, less = 1;
    const auto ahead = [](Policy& policy, const int& offer, Decision before) {
      return policy.choose_ahead(std::span(&offer, 1), before);
    };
    Policy policy = one_source();
    expect(choose(policy, all) == Decision{} && !ahead(policy, all, {})) << "what a plain round costs is to be seen first";
    for (int i = 0; i < 2; ++i) policy.observe({.verify_s = 1});
    expect(choose(policy, all).k == 1_i && !ahead(policy, all, {0, 1})) << "two that cost as much as they may";

    static_cast<void>(steady(kMixture, 0.11, same(1)).run(policy, 500, 1));
    Decision decision = choose(policy, all);
    for (; decision.k == 0; decision = choose(policy, all)) policy.observe({.verify_s = Simulation::kStep_s});
    expect(decision.k > 1);
    const double before = policy.acceptance(0, 1);
    expect(!ahead(policy, less, decision) && policy.acceptance(0, 1) == before) << "another decision";
    std::optional<Decision> next = ahead(policy, all, decision);
    for (int round = 0; round < 100 && next == decision; ++round, next = ahead(policy, all, decision))
      policy.observe({.source = 0, .drafted = decision.k, .accepted = decision.k, .draft_s = 0.11 * decision.k * Simulation::kStep_s,
                      .verify_s = kMixture.steps[decision.k] * Simulation::kStep_s});
    expect(next == Decision{} && policy.why_plain() == "measuring") << "a plain round is due";
    expect(!ahead(policy, all, Decision{})) << "and one is enough";

    const int none = 0;
    Policy plain = one_source();
    expect(ahead(plain, none, {}) == Decision{}) << "where nobody drafts there is nothing to learn";
  };

  "a fixed k is obeyed as far as the offers go"_test = [] {
    for (int fixed_k = 0; fixed_k <= kMaxDrafts; ++fixed_k) {
      Policy policy({.sources = {{.draft_steps = 9, .acceptance = 0.01}}, .fixed_k = fixed_k});
      for (int round = 0; round < 100; ++round) {
        const int offer = round % (kMaxDrafts + 1);
        const auto [source, k] = choose(policy, offer);
        expect(k == std::min(fixed_k, offer) && source == (k > 0 ? 0 : -1)) << fixed_k << offer << k;
        expect(policy.why_plain() == (k > 0 ? "" : fixed_k == 0 ? "fixed" : "no source"));
        policy.observe({.source = source, .drafted = k, .draft_s = 9.0 * k, .verify_s = 1.0 + k});
      }
    }
  };

  "a fixed k takes the source that is accepted more often"_test = [] {
    Policy policy({.sources = {{.acceptance = 0.5}, {.acceptance = 0.6}}, .fixed_k = 3});
    const int both[] = {7, 7}, first[] = {7, 0};
    expect(policy.choose(both).source == 1_i);
    expect(policy.choose(first).source == 0_i);
    for (int i = 0; i < 10; ++i) policy.observe({.source = 1, .drafted = 3, .verify_s = 1});
    expect(policy.choose(both).source == 0_i);
  };

  "the same rounds give the same choices"_test = [] {
    const Simulation simulation = steady(kMixture, 0.11, kAcceptances[7]);
    Policy a = one_source(), b = one_source();
    const auto one = simulation.run(a, kTokens, 5), other = simulation.run(b, kTokens, 5);
    expect(std::equal(one.rounds.begin(), one.rounds.end(), other.rounds.begin(), other.rounds.end(),
                      [](const auto& x, const auto& y) { return x.decision.k == y.decision.k && x.accepted == y.accepted; }));
  };

  "it knows what rounds cost and what was accepted"_test = [] {
    Policy policy = one_source();
    const Depths acceptance = {0.95, 0.9, 0.6, 0.6, 0.6, 0.6, 0.6};
    static_cast<void>(steady(kMixture, 0.11, acceptance).run(policy, kTokens, 1));
    for (int width = 1; width <= 4; ++width) {
      expect(std::abs(policy.costs->verify_s(width) - kMixture.steps[width - 1] * Simulation::kStep_s) < 0.002 * Simulation::kStep_s) << width;
    }
    expect(std::abs(policy.costs->run_s(0) - 0.11 * Simulation::kStep_s) < 1e-9);
    for (int position = 1; position <= 3; ++position) {
      expect(std::abs(policy.acceptance(0, position) - acceptance[position - 1]) < 0.2) << policy.acceptance(0, position);
    }
  };

  "it says why a round is plain"_test = [] {
    Policy policy = one_source();
    reject(policy, kMixture, 100);
    expect(choose(policy, 0).k == 0_i);
    expect(policy.why_plain() == "no source");
    expect(choose(policy, kMaxDrafts).k == 0_i);
    expect(policy.why_plain() == "not profitable");

    Policy dear = one_source();
    for (const double verify_s : {1.0, 1.0}) dear.observe({.verify_s = verify_s});
    expect(choose(dear, kMaxDrafts).k == 1_i);
    dear.observe({.source = 0, .drafted = 1, .draft_s = 5, .verify_s = 2});
    expect(choose(dear, kMaxDrafts).k == 0_i);
    expect(dear.why_plain() == "regret account");
  };

  "a new text forgets half of what was accepted, and soon tries again"_test = [] {
    Policy policy = one_source();
    static_cast<void>(steady(kMixture, 0.11, same(1)).run(policy, 500, 1));
    const double before = policy.acceptance(0, 1), step_s = policy.costs->verify_s(1), wide_s = policy.costs->verify_s(5);
    policy.begin_request();
    expect(before > 0.95 && std::abs(policy.acceptance(0, 1) - (before + 0.7) / 2) < 0.02) << before;
    expect(policy.costs->verify_s(1) == step_s && policy.costs->verify_s(5) == wide_s);

    // After long failure the next trial is far away, unless a new text begins.
    for (const bool new_text : {false, true}) {
      Policy off = one_source();
      reject(off, kMixture, kTokens);
      while (choose(off, kMaxDrafts).k > 0) reject(off, kMixture, 1);
      reject(off, kMixture, 20);
      if (new_text) off.begin_request();
      int plain = 0;
      while (plain < 100 && choose(off, kMaxDrafts).k == 0) {
        off.observe({.verify_s = 1});
        ++plain;
      }
      expect(new_text ? plain > 0 && plain <= 16 : plain == 100) << plain;
    }
  };

  "a landmark tries again at once, as if little were known"_test = [] {
    Policy policy = one_source();
    for (int i = 0; i < 2; ++i) policy.observe({.verify_s = 1});
    for (int i = 0; i < 40; ++i) policy.observe({.source = 0, .drafted = 1, .draft_s = 0.15, .verify_s = 0.99});
    policy.observe({.verify_s = 1});
    for (int i = 0; i < 10; ++i) {
      expect(choose(policy, kMaxDrafts).k == 0_i);
      policy.observe({.verify_s = 1});
    }
    policy.landmark();
    expect(choose(policy, kMaxDrafts).k == 1_i);
    for (int i = 0; i < 4; ++i) {
      policy.observe({.source = 0, .drafted = 1, .accepted = 1, .draft_s = 0.15, .verify_s = 0.99});
      policy.observe({.verify_s = 1});
      expect(choose(policy, 1).k == 1_i);
    }
    expect(policy.acceptance(0, 1) > 0.5) << policy.acceptance(0, 1);
  };
};

}  // namespace
}  // namespace lapidary::test::policy_test
