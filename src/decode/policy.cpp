#include "decode/policy.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace lapidary::decode {
namespace {

// The account: a share of the time, and a sum. The sum is a little less than promised, for costs that grow.
constexpr double kLossShare = 0.015;
constexpr double kLossSteps = 7.5;
constexpr double kAccident = 1.5;          // a round is charged at most this times what it could cost

// What is assumed of costs that are not known: at most, and at best.
constexpr double kUnknownDraftSteps = 6.0;                // a draft
constexpr double kUnknownRowSteps = 2.0;                  // one row more
constexpr double kHopefulRow = 0.2, kHopefulLateRow = 0.6;  // one row more, as a share of those before it: to 4, beyond
constexpr double kHopefulBetween = 0.96;                  // a width between two that are known, of what it costs if even
constexpr double kGrowthPerToken = 0.001, kGrowth = 0.5;  // of a known cost since it was seen

constexpr double kTick_s = 1e-9;           // no round is shorter
constexpr double kUnlimited_s = std::numeric_limits<double>::infinity();
constexpr double kBlend = 1.0 / 3.0;       // the weight of a new cost
constexpr double kFarOff = 1.5;            // a cost that grows as much is believed when seen kBelieved times in a row
constexpr int kBelieved = 3;
constexpr double kSlackSteps = 0.1;        // of a draft; less is no difference
constexpr std::int64_t kStale = 4096;      // tokens after which a cost is not known any more

constexpr double kDrifted = 0.1;           // since the last plain round: time for another one
constexpr double kDisagrees = 0.15;        // a plain round with what was expected of it: time for kMorePlain
constexpr int kFirstPlainInterval = 4, kPlainInterval = 64, kMorePlain = 3;  // rounds

constexpr double kHalfLife = 32;           // of acceptance: rounds of a source; tokens while it is off
constexpr double kUnusedHalfLife = 128;    // rounds in which the source could have drafted but did not
constexpr double kPriorWeight = 2;         // rounds

constexpr double kKeep = 1.025;            // another k must be better by this much
constexpr double kFirst = 100;             // a source on trial goes before others
constexpr std::int64_t kUnused = 1024;     // tokens until a source is tried again that others have been preferred to
constexpr double kWorthIt = 1.03, kProven = 1.05, kHopeless = 0.95;  // gains
constexpr int kTrialRounds = 4, kPatience = 16;
constexpr double kShortWait = 64, kLongWait = 1024, kSoon = 8;       // tokens

constexpr std::string_view kMeasuring = "measuring";

}  // namespace

// Nothing makes a round faster by accident.
bool Policy::Cost::observe(double observed_s, double slack_s, double most_s) {
  const bool low = count == 0 || observed_s < value_s / kFarOff - slack_s;
  const bool high = count > 0 && observed_s > value_s * kFarOff + slack_s;
  if (high) {
    odd_s = odd_count == 0 ? observed_s : std::min(odd_s, observed_s);
    if (++odd_count < kBelieved) return false;
  }
  if (low || high) value_s = std::min(low ? observed_s : odd_s, most_s);
  else value_s += (settled() ? kBlend : 0.5) * (observed_s - value_s);
  if (count == 0 || !low) count = std::min(count + 1, 2);
  odd_count = 0;
  return true;
}

Policy::Policy(const PolicyOptions& options)
    : plain_interval_(kFirstPlainInterval),
      source_count_(static_cast<int>(options.sources.size())),
      kmax_(options.kmax),
      fixed_k_(options.fixed_k) {
  assert(source_count_ <= kMaxSources && kmax_ >= 0 && kmax_ <= kMaxDrafts);
  for (int s = 0; s < source_count_; ++s) {
    sources_[s].prior = options.sources[s];
    sources_[s].interval_tokens = kShortWait;
  }
}

Choice Policy::choose(std::span<const int> offers) {
  assert(static_cast<int>(offers.size()) == source_count_);
  if (fixed_k_) {
    const Choice choice = fixed_choice(offers);
    why_plain_ = choice.k > 0 ? "" : *fixed_k_ == 0 ? "fixed" : "no source";
    return choice;
  }
  if (std::all_of(offers.begin(), offers.end(), [](int offer) { return offer <= 0; })) {
    why_plain_ = "no source";
    return {};
  }
  if (plain_is_due()) {
    why_plain_ = kMeasuring;
    return {};
  }

  Choice best;
  double best_gain = 0;
  why_plain_ = "not profitable";
  for (int s = 0; s < source_count_; ++s) {
    const int most = std::min(offers[s], kmax_);
    if (most <= 0) continue;
    Source& source = sources_[s];
    const ByDrafts gains = this->gains(s, most);
    if (!consider(source, *std::max_element(gains.begin(), gains.end()))) continue;

    const bool on_trial = source.rounds < kTrialRounds;
    for (int k = 1; k <= most; ++k) {
      if (gains[k] == 0 || (gains[k] < kHopeless && !on_trial)) continue;
      if (!affordable(s, k)) {
        why_plain_ = "regret account";
        continue;
      }
      const bool current = s == current_.source && k == current_.k;
      const double weighted = gains[k] * (on_trial ? kFirst : current ? kKeep : 1.0);
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
std::optional<Choice> Policy::choose_ahead(std::span<const int> offers, const Choice& before) {
  Policy ahead = *this;
  if (before.k > 0) ahead.account_steps_ += worst_loss_steps(before.source, before.k);
  const Choice choice = ahead.choose(offers);
  const bool measures = ahead.why_plain_ == kMeasuring;
  if (measures ? before.k == 0 : choice != before) return std::nullopt;
  ahead.account_steps_ = account_steps_;
  *this = ahead;
  return choice;
}

Choice Policy::fixed_choice(std::span<const int> offers) const {
  Choice best;
  double best_tokens = 1;
  for (int s = 0; s < source_count_; ++s) {
    const int k = std::min({*fixed_k_, offers[s], kmax_});
    const double tokens = k > 0 ? expected_tokens(s)[k] : 0;
    if (tokens > best_tokens) best = {s, k}, best_tokens = tokens;
  }
  return best;
}

// All other costs are judged against that of a step, so it must not go stale.
bool Policy::plain_is_due() const {
  return !verify_[1].settled() || plain_wanted_ > 0 || since_plain_ >= plain_interval_ || std::abs(drift_ - 1) > kDrifted;
}

// Turns a source off when it does not pay, and on again for a trial when it has waited. Returns whether it is on.
bool Policy::consider(Source& source, double best_gain) {
  if (!source.on) {
    if (source.wait_tokens > 0) return false;
    forget(source, std::exp2(-source.waited_tokens / kHalfLife));
    source.on = true;
    source.proven = false;
    source.rounds = source.unprofitable = 0;
    return true;
  }
  // It may be on and never be chosen, because of what is believed of it.
  if (tokens_ - source.draft.seen_at_token > kUnused) source.rounds = 0;
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

// The widest known width below; 1 where there is none.
int Policy::settled_below(int width) const {
  int below = width - 1;
  while (below > 1 && !verify_[below].settled()) --below;
  return below;
}

// The narrowest known width above; 0 where there is none.
int Policy::settled_above(int width) const {
  for (int above = width + 1; above <= kMaxDrafts + 1; ++above)
    if (verify_[above].settled()) return above;
  return 0;
}

// What is not known of a position is as for the one before it, so a deeper draft gets its chance.
double Policy::acceptance(int source, int position) const {
  double estimate = sources_[source].prior.acceptance;
  for (int i = 1; i <= position; ++i) estimate = sources_[source].tallies[i].estimate(estimate);
  return estimate;
}

// Between widths that are known by interpolation; beyond them by hope.
double Policy::verify_s(int width) const {
  if (width == 1 || verify_[width].settled()) return now_s(verify_[width]);
  const int below = settled_below(width), above = settled_above(width);
  const double step_s = now_s(verify_[1]), below_s = now_s(verify_[below]);
  if (above > 0) return kHopefulBetween * (below_s + (now_s(verify_[above]) - below_s) * (width - below) / (above - below));
  if (below == 1) return step_s;
  const double row_s = std::max(0.0, below_s - step_s) / (below - 1);
  return step_s + (width <= 4 ? kHopefulRow : kHopefulLateRow) * row_s * (width - 1);
}

double Policy::draft_s(int source) const {
  const Source& from = sources_[source];
  return from.draft.count > 0 ? now_s(from.draft) : from.prior.draft_steps * now_s(verify_[1]);
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

// Tokens per time, relative to plain rounds; 0 where a narrower width is to be tried first: they are tried two by two.
Policy::ByDrafts Policy::gains(int source, int most) const {
  const ByDrafts tokens = expected_tokens(source);
  const double step_s = verify_s(1);
  ByDrafts gains{};
  for (int k = 1; k <= most; ++k) {
    const int width = k + 1, next = settled_below(width) / 2 * 2 + 2;
    if (!verify_[width].settled() && settled_above(width) == 0 && width != std::min(next, most + 1)) continue;
    gains[k] = tokens[k] * step_s / (verify_s(width) + k * draft_s(source));
  }
  return gains;
}

double Policy::may_have_grown(const Cost& cost) const {
  return cost.excess + std::min(kGrowth, kGrowthPerToken * static_cast<double>(tokens_ - cost.seen_at_token));
}

// A step has become dearer only when a plain round says so, but cheaper as soon as any round is.
double Policy::least_step_s(double change) const {
  return std::min(verify_[1].value_s, last_plain_s_) * std::min(1.0, drift_ * change);
}

// No width costs more, as far as can be assumed before it is known.
double Policy::most_verify_s(int width) const {
  const Cost& cost = verify_[width];
  if (cost.settled()) return now_s(cost) * may_have_grown(cost);
  const int below = settled_below(width);
  const double step_s = verify_[1].value_s, below_s = now_s(verify_[below]);
  return std::min(below_s + kUnknownRowSteps * step_s * (width - below), width * std::max(step_s, below_s / below));
}

double Policy::most_draft_s(int source) const {
  const Cost& cost = sources_[source].draft;
  return cost.count > 0 ? now_s(cost) * may_have_grown(cost) : kUnknownDraftSteps * verify_[1].value_s;
}

// A leaky bucket of what drafting has lost: as no round may overfill it, no run of rounds loses more than it holds and what
// leaks meanwhile. This assumes that
// - a draft costs at most kUnknownDraftSteps and a width at most its number of rows, in steps, before it is known;
// - known costs grow against a step by at most kGrowthPerToken, or now and then by what is kept back of the 8 steps;
// - a step becomes cheaper only when wider rounds do, or else by little within kPlainInterval rounds.
bool Policy::affordable(int source, int k) const { return account_steps_ + worst_loss_steps(source, k) <= kLossSteps; }

double Policy::worst_loss_steps(int source, int k) const {
  return (most_verify_s(k + 1) + k * most_draft_s(source)) / least_step_s(1) - 1;
}

void Policy::observe(const RoundOutcome& observed) {
  RoundOutcome outcome = observed;
  outcome.verify_s = std::max(outcome.verify_s, kTick_s);
  assert(outcome.drafted >= 0 && outcome.drafted <= kMaxDrafts);
  assert(outcome.accepted >= 0 && outcome.accepted <= outcome.drafted);
  if (outcome.drafted == 0) {
    observe_plain(outcome.verify_s);
    account_steps_ = std::max(0.0, account_steps_ - kLossShare);
  } else {
    assert(outcome.source >= 0 && outcome.source < source_count_);
    observe_drafted(outcome);
  }
  tokens_ += outcome.accepted + 1;
  for (Source& source : sources_) {
    source.wait_tokens -= outcome.accepted + 1;
    source.waited_tokens += outcome.accepted + 1;
  }
}

void Policy::observe_plain(double plain_s) {
  Cost& step = verify_[1];
  const double before_s = step.value_s;
  const double expected_s = before_s * drift_;
  step.value_s = expected_s;
  last_plain_s_ = plain_s;
  ++since_plain_;
  if (!step.observe(plain_s, 0, kUnlimited_s)) {
    step.value_s = before_s;
    plain_wanted_ = 1;
    return;
  }

  // Costs not seen since the last plain round are taken to have changed as that of a step did; all of them, when that has
  // grown so much that they cannot have been seen since.
  const double change = before_s > 0 ? step.value_s / before_s : 1;
  const bool leapt = step.value_s > kFarOff * expected_s;
  const auto follow = [&](Cost& cost) {
    if (!cost.since_plain || leapt) cost.value_s *= change;
    if (tokens_ - cost.seen_at_token > kStale) cost.count = std::min(cost.count, 1);
    cost.since_plain = false;
  };
  for (std::size_t width = 2; width < verify_.size(); ++width) follow(verify_[width]);
  for (Source& source : sources_) follow(source.draft);
  drift_ = 1;

  const bool agrees = std::abs(plain_s - expected_s) <= kDisagrees * expected_s;
  plain_wanted_ = agrees ? 0 : plain_wanted_ > 0 ? plain_wanted_ - 1 : kMorePlain;
  if (since_plain_ > 1) plain_interval_ = agrees ? std::min(2 * plain_interval_, kPlainInterval) : kFirstPlainInterval;
  since_plain_ = 0;
}

void Policy::observe_drafted(const RoundOutcome& outcome) {
  Source& source = sources_[outcome.source];
  Cost& verify = verify_[outcome.drafted + 1];
  Cost& draft = source.draft;
  const double draft_s = outcome.draft_s / outcome.drafted;

  // Charge the account. When this round was cheaper than expected, a step may have been, too.
  const double slack_s = kSlackSteps * verify_[1].value_s;
  double change = 1;
  if (verify.settled()) change = outcome.verify_s / now_s(verify);
  else if (draft.settled() && now_s(draft) > slack_s) change = draft_s / now_s(draft);
  const double step_s = least_step_s(change);
  const double round_s = std::min(outcome.verify_s, kAccident * most_verify_s(outcome.drafted + 1)) +
                         std::min(outcome.draft_s, kAccident * outcome.drafted * most_draft_s(outcome.source));
  if (step_s > 0) {
    const double loss_steps = round_s * (1 - kLossShare) / step_s - (outcome.accepted + 1);
    account_steps_ = std::max(0.0, account_steps_ + loss_steps);
  }

  // Costs.
  const bool was_settled = verify.settled();
  const auto learn = [&](Cost& cost, double observed_s, double slack_s, double most_s) {
    const double before_s = std::exchange(cost.value_s, now_s(cost));
    if (cost.observe(observed_s, slack_s, most_s)) {
      cost.since_plain = true;
      cost.seen_at_token = tokens_;
      cost.excess = std::max(1.0, std::min(observed_s, most_s) / std::max(cost.value_s, slack_s));
    } else {
      cost.value_s = before_s;
    }
  };
  const double verify_before_s = now_s(verify);
  learn(draft, draft_s, slack_s, kUnlimited_s);
  learn(verify, outcome.verify_s, 0, (outcome.drafted + 1) * now_s(verify_[1]));
  ++since_plain_;
  if (was_settled && verify.since_plain) drift_ *= verify.value_s / verify_before_s;

  // Acceptance.
  forget(source, std::exp2(-1 / kHalfLife));
  for (int i = 1; i <= std::min(outcome.accepted + 1, outcome.drafted); ++i) {
    source.tallies[i].reached += 1;
    source.tallies[i].accepted += i <= outcome.accepted;
  }
  ++source.rounds;
}

void Policy::forget(Source& source, double kept) {
  for (Tally& tally : source.tallies) tally = {tally.reached * kept, tally.accepted * kept};
}

void Policy::begin_request() {
  for (Source& source : sources_) {
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
  for (Source& source : sources_) {
    if (source.on) continue;
    source.wait_tokens = 0;
    source.waited_tokens = std::max(source.waited_tokens, 4 * kHalfLife);
  }
}

}  // namespace lapidary::decode
