#include "decode/policy.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace lapidary::decode {
namespace {

// The account: a share of the time, and a sum. The sum is a little less than promised, for costs that grow.
constexpr double kLossShare = 0.015;
constexpr double kLossSteps = 7.5;

constexpr double kHalfLife = 32;           // of acceptance: rounds of a source; tokens while it is off
constexpr double kUnusedHalfLife = 128;    // rounds in which the source could have drafted but did not
constexpr double kPriorWeight = 2;         // rounds

constexpr double kKeep = 1.025;            // another k must be better by this much
constexpr double kFirst = 100;             // goes before others: a source on trial, drafts that are wanted anyway
constexpr std::int64_t kUnused = 1024;     // tokens until a source is tried again that others have been preferred to
constexpr double kWorthIt = 1.03, kProven = 1.05, kHopeless = 0.95;  // gains
constexpr int kTrialRounds = 4, kPatience = 16;
constexpr int kGlance = 2;                 // rounds of a trial that say whether it may pay
constexpr double kPaidFor = 16;            // times what a trial costs must have been gained, where another source pays
constexpr double kShortWait = 64, kLongWait = 1024, kSoon = 8;       // tokens

constexpr std::string_view kMeasuring = "measuring";

}  // namespace

Policy::Policy(const PolicyOptions& options, RoundCosts& costs)
    : costs_(&costs),
      source_count_(static_cast<int>(options.sources.size())),
      kmax_(options.kmax),
      fixed_k_(options.fixed_k) {
  assert(source_count_ <= kMaxDraftSources && kmax_ >= 0 && kmax_ <= kMaxDrafts);
  for (int s = 0; s < source_count_; ++s) {
    sources_[s].prior = options.sources[s];
    sources_[s].interval_tokens = kShortWait;
  }
}

Decision Policy::choose(std::span<const int> offers) {
  assert(static_cast<int>(offers.size()) == source_count_);
  if (fixed_k_) {
    const Decision decision = fixed_decision(offers);
    why_plain_ = decision.k > 0 ? "" : *fixed_k_ == 0 ? "fixed" : "no source";
    return decision;
  }
  if (std::all_of(offers.begin(), offers.end(), [](int offer) { return offer <= 0; })) {
    why_plain_ = "no source";
    return {};
  }
  if (costs_->plain_is_due()) {
    why_plain_ = kMeasuring;
    return {};
  }

  // What may yet be lost is for those that have not had their chance. Where somebody pays, they get it from what was gained.
  std::array<ByDrafts, kMaxDraftSources> gains_of{};
  std::array<bool, kMaxDraftSources> pays{};
  bool some_untried = false;
  for (int s = 0; s < source_count_; ++s) {
    if (offers[s] <= 0) continue;
    gains_of[s] = gains(s, std::min(offers[s], kmax_));
    if (!sources_[s].on) continue;
    some_untried = some_untried || sources_[s].rounds < kTrialRounds;
    pays[s] = sources_[s].rounds >= kGlance && std::ranges::max(gains_of[s]) >= kProven;
  }
  const bool some_pays = std::ranges::find(pays, true) != pays.end();
  Decision best;
  double best_gain = 0;
  why_plain_ = "not profitable";
  for (int s = 0; s < source_count_; ++s) {
    const int most = std::min(offers[s], kmax_);
    if (most <= 0) continue;
    SourceRecord& source = sources_[s];
    if (!source.on && some_untried) continue;
    const ByDrafts& gains = gains_of[s];
    if (!consider(source, std::ranges::max(gains))) continue;

    const bool on_trial = source.rounds < kTrialRounds, goes_first = on_trial && !pays[s];
    for (int k = 1; k <= most; ++k) {
      if (gains[k] == 0 || (gains[k] < kHopeless && !on_trial)) continue;
      if (!affordable(s, k)) {
        why_plain_ = "regret account";
        continue;
      }
      if (goes_first && some_pays && gained_steps_ < kPaidFor * (costs_->round_steps(s, k) - 1)) continue;
      const bool current = s == current_.source && k == current_.k;
      const double weighted = gains[k] * (goes_first ? kFirst * (kTrialRounds - source.rounds) : current ? kKeep : 1.0);
      if (weighted > best_gain) best = {s, k}, best_gain = weighted;
    }
  }

  for (int s = 0; s < source_count_; ++s) {
    if (offers[s] > 0 && sources_[s].on && s != best.source) forget(sources_[s], std::exp2(-1 / kUnusedHalfLife));
  }
  if (best.k > 0) {
    current_ = best;
    why_plain_ = "";
  }
  return best;
}

// The same again, or one plain round to measure. The round before may yet lose as much as it can.
std::optional<Decision> Policy::choose_ahead(std::span<const int> offers, const Decision& before) {
  Policy ahead = *this;
  if (before.k > 0) ahead.account_steps_ += costs_->worst_loss_steps(before.source, before.k);
  const Decision decision = ahead.choose(offers);
  const bool measures = ahead.why_plain_ == kMeasuring;
  if (measures ? before.k == 0 : decision != before) return std::nullopt;
  ahead.account_steps_ = account_steps_;
  *this = ahead;
  return decision;
}

Decision Policy::fixed_decision(std::span<const int> offers) const {
  Decision best;
  double best_tokens = 1;
  for (int s = 0; s < source_count_; ++s) {
    const int k = std::min({*fixed_k_, offers[s], kmax_});
    const double tokens = k > 0 ? expected_tokens(s)[k] : 0;
    if (tokens > best_tokens) best = {s, k}, best_tokens = tokens;
  }
  return best;
}

// Turns a source off when it does not pay, and on again for a trial when it has waited. Returns whether it is on.
bool Policy::consider(SourceRecord& source, double best_gain) {
  if (!source.on) {
    if (source.wait_tokens > 0) return false;
    forget(source, std::exp2(-source.waited_tokens / kHalfLife));
    source.on = true;
    source.proven = false;
    source.rounds = source.unprofitable = 0;
    return true;
  }
  // It may be on and never be chosen, because of what is believed of it.
  if (tokens_ - source.drafted_at_token > kUnused) source.rounds = 0;
  if (source.rounds < kTrialRounds) return true;

  source.unprofitable = best_gain < kWorthIt ? source.unprofitable + 1 : 0;
  if (best_gain >= kProven && source.rounds >= kPatience) {
    source.proven = true;
    source.interval_tokens = kShortWait;
  }
  if (best_gain >= kHopeless && source.unprofitable <= kPatience) return true;
  source.on = false;
  if (!source.proven) source.interval_tokens = std::min(2 * source.interval_tokens, kLongWait);
  source.wait_tokens = source.interval_tokens;
  source.waited_tokens = 0;
  return false;
}

double Policy::Tally::estimate(double otherwise) const {
  return (accepted + kPriorWeight * otherwise) / (reached + kPriorWeight);
}

// What is not known of a position is as for the one before it, so a deeper draft gets its chance.
double Policy::acceptance(int source, int position) const {
  double estimate = sources_[source].prior.acceptance;
  for (int i = 1; i <= position; ++i) estimate = sources_[source].tallies[i].estimate(estimate);
  return estimate;
}

// Of a round with k drafts, for every k.
Policy::ByDrafts Policy::expected_tokens(int source) const {
  ByDrafts tokens{1};
  double all_accepted = 1, accepted = sources_[source].prior.acceptance;
  for (int k = 1; k <= kMaxDrafts; ++k) {
    accepted = sources_[source].tallies[k].estimate(accepted);
    tokens[k] = tokens[k - 1] + (all_accepted *= accepted);
  }
  return tokens;
}

// Tokens per time, relative to plain rounds; 0 where a narrower width is to be tried first.
Policy::ByDrafts Policy::gains(int source, int most) const {
  const ByDrafts tokens = expected_tokens(source);
  ByDrafts gains{};
  for (int k = 1; k <= most; ++k)
    if (costs_->may_try(k + 1, most + 1)) gains[k] = tokens[k] / costs_->round_steps(source, k);
  return gains;
}

// A leaky bucket of what drafting has lost: as no round may overfill it, no run of rounds loses more than it holds and what
// leaks meanwhile. This assumes that
// - a draft costs at most kUnknownDraftSteps and a width at most its number of rows, in steps, before it is known;
// - known costs grow against a step by at most kGrowthPerToken, or now and then by what is kept back of the 8 steps;
// - a step becomes cheaper only when wider rounds do, or else by little within kPlainInterval rounds;
// - rounds of one width take the same time: where it is noisy, up to 22 steps were lost in simulations.
bool Policy::affordable(int source, int k) const { return account_steps_ + costs_->worst_loss_steps(source, k) <= kLossSteps; }

Offer Policy::offer(std::span<const int> offers) {
  offered_ = {};
  if (fixed_k_) {
    const Decision decision = fixed_decision(offers);
    offered_ = {.source = decision.source, .count = decision.k, .fixed = true};
  }
  double best_tokens = 1;
  for (int s = 0; s < source_count_ && !fixed_k_; ++s) {
    const int most = std::min(offers[s], kmax_);
    if (most <= 0 || (!sources_[s].on && sources_[s].wait_tokens > 0)) continue;
    const double tokens = expected_tokens(s)[most];
    if (tokens > best_tokens) offered_ = {.source = s, .count = most}, best_tokens = tokens;
  }
  if (offered_.count == 0) return offered_;
  const ByDrafts tokens = expected_tokens(offered_.source);
  for (int k = 1; k <= offered_.count; ++k) offered_.tokens[k - 1] = tokens[k] - tokens[k - 1];
  offered_.run_s = costs_->run_s(offered_.source);
  offered_.block = sources_[offered_.source].prior.block;
  return offered_;
}

Decision Policy::take(int k) {
  why_plain_ = k > 0 ? "" : offered_.count > 0 ? "not profitable" : fixed_k_ == 0 ? "fixed" : "no source";
  if (k == 0 && offered_.count > 0) forget(sources_[offered_.source], std::exp2(-1 / kUnusedHalfLife));
  return k > 0 ? Decision{offered_.source, k} : Decision{};
}

RowShares share_rows(std::span<const Offer> offers, const RoundCosts& costs, int rows) {
  RowShares shares{}, best{};
  int width = static_cast<int>(offers.size());
  double tokens = width, drafts_s = 0, best_speed = 0;
  const auto speed = [&] { return tokens / (costs.verify_s(width) + drafts_s); };
  // The next draft: first what is wanted anyway, then what adds most.
  const auto next = [&] {
    int found = -1;
    double most = 0;
    for (int s = 0; s < static_cast<int>(offers.size()); ++s) {
      if (shares[s] == offers[s].count) continue;
      const double adds = offers[s].tokens[shares[s]] + (offers[s].fixed ? kFirst : 0);
      if (adds > most) found = s, most = adds;
    }
    return found;
  };
  for (int s = next(); width < rows && s >= 0; s = next()) {
    if (!offers[s].fixed && best_speed == 0) {
      if (!costs.known(width)) return best;  // what it costs without drafts comes first
      best_speed = kWorthIt * speed();
    }
    if (!offers[s].block || shares[s] == 0) drafts_s += offers[s].run_s;
    tokens += offers[s].tokens[shares[s]++];
    ++width;
    if (offers[s].fixed) {
      best = shares;
    } else if (costs.may_try(width, rows) && speed() > best_speed) {
      best = shares;
      best_speed = speed();
    }
  }
  return best;
}

void Policy::observe(const RoundOutcome& outcome) {
  const int k = outcome.drafted, width = k + 1 + outcome.other_rows;
  assert(k >= 0 && k <= kMaxDrafts && outcome.accepted >= 0 && outcome.accepted <= k);
  assert(k == 0 || (outcome.source >= 0 && outcome.source < source_count_));
  if (outcome.measures) costs_->observe_round(width, outcome.verify_s);
  if (outcome.other_rows == 0) charge(outcome);
  if (k > 0) costs_->observe_drafts(outcome.source, k, outcome.draft_s);
  if (k > 0) observe_drafts(outcome);
  tokens_ += outcome.accepted + 1;
  costs_->advance(outcome.accepted + 1);
  for (SourceRecord& source : sources_) {
    source.wait_tokens -= outcome.accepted + 1;
    source.waited_tokens += outcome.accepted + 1;
  }
}

void Policy::charge(const RoundOutcome& outcome) {
  double loss_steps = -kLossShare;
  if (outcome.drafted > 0) {
    const double steps = costs_->steps_of(outcome.source, outcome.drafted, outcome.draft_s, outcome.verify_s);
    loss_steps = steps > 0 ? steps * (1 - kLossShare) - (outcome.accepted + 1) : 0;
  }
  account_steps_ = std::max(0.0, account_steps_ + loss_steps);
  if (outcome.drafted > 0) gained_steps_ -= loss_steps;
}

void Policy::observe_drafts(const RoundOutcome& outcome) {
  SourceRecord& source = sources_[outcome.source];
  forget(source, std::exp2(-1 / kHalfLife));
  for (int i = 1; i <= std::min(outcome.accepted + 1, outcome.drafted); ++i) {
    source.tallies[i].reached += 1;
    source.tallies[i].accepted += i <= outcome.accepted;
  }
  ++source.rounds;
  source.drafted_at_token = tokens_;
}

void Policy::forget(SourceRecord& source, double kept) {
  for (Tally& tally : source.tallies) tally = {tally.reached * kept, tally.accepted * kept};
}

void Policy::begin_request() {
  for (SourceRecord& source : sources_) {
    for (Tally& tally : source.tallies) {
      // As much as the prior weighs: half-way.
      const double kept = kPriorWeight / std::max(tally.reached, kPriorWeight);
      tally = {tally.reached * kept, tally.accepted * kept};
    }
    source.interval_tokens = kShortWait;
    source.wait_tokens = std::min(source.wait_tokens, kSoon);
  }
}

void Policy::landmark() {
  for (SourceRecord& source : sources_) {
    if (source.on) continue;
    source.wait_tokens = 0;
    source.waited_tokens = std::max(source.waited_tokens, 4 * kHalfLife);
  }
}

}  // namespace lapidary::decode
