#include "decode/costs.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace lapidary::decode {
namespace {

constexpr double kAccident = 1.5;          // a round is charged at most this times what it could cost

// What is assumed of costs that are not known: at most, and at best.
constexpr double kUnknownDraftSteps = 6.0;                // a run that drafts
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

}  // namespace

// Nothing makes a round faster by accident.
bool RoundCosts::Cost::observe(double observed_s, double slack_s, double most_s) {
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

RoundCosts::RoundCosts(const std::vector<SourceCost>& sources) : plain_interval_(kFirstPlainInterval) {
  assert(sources.size() <= sources_.size());
  std::ranges::copy(sources, sources_.begin());
}

bool RoundCosts::plain_is_due() const {
  return !verify_[1].settled() || plain_wanted_ > 0 || since_plain_ >= plain_interval_ || std::abs(drift_ - 1) > kDrifted;
}

// The widest known width below; 1 where there is none.
int RoundCosts::settled_below(int width) const {
  int below = width - 1;
  while (below > 1 && !verify_[below].settled()) --below;
  return below;
}

// The narrowest known width above; 0 where there is none.
int RoundCosts::settled_above(int width) const {
  for (int above = width + 1; above <= kMaxDrafts + 1; ++above)
    if (verify_[above].settled()) return above;
  return 0;
}

bool RoundCosts::may_try(int width, int widest) const {
  const int next = settled_below(width) / 2 * 2 + 2;
  return verify_[width].settled() || settled_above(width) > 0 || width == std::min(next, widest);
}

// Between widths that are known by interpolation; beyond them by hope.
double RoundCosts::verify_s(int width) const {
  if (width == 1 || verify_[width].settled()) return now_s(verify_[width]);
  const int below = settled_below(width), above = settled_above(width);
  const double step_s = now_s(verify_[1]), below_s = now_s(verify_[below]);
  if (above > 0) return kHopefulBetween * (below_s + (now_s(verify_[above]) - below_s) * (width - below) / (above - below));
  if (below == 1) return step_s;
  const double row_s = std::max(0.0, below_s - step_s) / (below - 1);
  return step_s + (width <= 4 ? kHopefulRow : kHopefulLateRow) * row_s * (width - 1);
}

double RoundCosts::run_s(int source) const {
  const Cost& cost = draft_[source];
  return cost.count > 0 ? now_s(cost) : sources_[source].run_steps * now_s(verify_[1]);
}

double RoundCosts::may_have_grown(const Cost& cost) const {
  return cost.excess + std::min(kGrowth, kGrowthPerToken * static_cast<double>(tokens_ - cost.seen_at_token));
}

// A step has become dearer only when a plain round says so, but cheaper as soon as any round is.
double RoundCosts::least_step_s(double change) const {
  return std::min(verify_[1].value_s, last_plain_s_) * std::min(1.0, drift_ * change);
}

// No width costs more, as far as can be assumed before it is known.
double RoundCosts::most_verify_s(int width) const {
  const Cost& cost = verify_[width];
  if (cost.settled()) return now_s(cost) * may_have_grown(cost);
  const int below = settled_below(width);
  const double step_s = verify_[1].value_s, below_s = now_s(verify_[below]);
  return std::min(below_s + kUnknownRowSteps * step_s * (width - below), width * std::max(step_s, below_s / below));
}

double RoundCosts::most_run_s(int source) const {
  const Cost& cost = draft_[source];
  return cost.count > 0 ? now_s(cost) * may_have_grown(cost) : kUnknownDraftSteps * verify_[1].value_s;
}

double RoundCosts::worst_loss_steps(int source, int k) const {
  return (most_verify_s(k + 1) + runs(source, k) * most_run_s(source)) / least_step_s(1) - 1;
}

double RoundCosts::slack_s() const { return kSlackSteps * verify_[1].value_s; }

// When this round was cheaper than expected, a step may have been, too.
double RoundCosts::steps_of(int source, int k, double draft_s, double verify_s) const {
  const Cost& verify = verify_[k + 1];
  const Cost& draft = draft_[source];
  verify_s = std::max(verify_s, kTick_s);
  double change = 1;
  if (verify.settled()) change = verify_s / now_s(verify);
  else if (draft.settled() && now_s(draft) > slack_s()) change = draft_s / runs(source, k) / now_s(draft);
  const double step_s = least_step_s(change);
  const double round_s = std::min(verify_s, kAccident * most_verify_s(k + 1)) +
                         std::min(draft_s, kAccident * runs(source, k) * most_run_s(source));
  return step_s > 0 ? round_s / step_s : 0;
}

void RoundCosts::observe_drafts(int source, int k, double draft_s) {
  learn(draft_[source], draft_s / runs(source, k), slack_s(), kUnlimited_s);
}

void RoundCosts::observe_round(int width, double verify_s) {
  verify_s = std::max(verify_s, kTick_s);
  if (width == 1) return observe_plain(verify_s);
  Cost& verify = verify_[width];
  const bool was_settled = verify.settled();
  const double before_s = now_s(verify);
  learn(verify, verify_s, 0, verify_[1].count > 0 ? width * now_s(verify_[1]) : kUnlimited_s);
  ++since_plain_;
  if (was_settled && verify.since_plain) drift_ *= verify.value_s / before_s;
}

void RoundCosts::learn(Cost& cost, double observed_s, double slack_s, double most_s) {
  const double before_s = std::exchange(cost.value_s, now_s(cost));
  if (cost.observe(observed_s, slack_s, most_s)) {
    cost.since_plain = true;
    cost.seen_at_token = tokens_;
    cost.excess = std::max(1.0, std::min(observed_s, most_s) / std::max(cost.value_s, slack_s));
  } else {
    cost.value_s = before_s;
  }
}

void RoundCosts::observe_plain(double plain_s) {
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
  for (Cost& draft : draft_) follow(draft);
  drift_ = 1;

  const bool agrees = std::abs(plain_s - expected_s) <= kDisagrees * expected_s;
  plain_wanted_ = agrees ? 0 : plain_wanted_ > 0 ? plain_wanted_ - 1 : kMorePlain;
  if (since_plain_ > 1) plain_interval_ = agrees ? std::min(2 * plain_interval_, kPlainInterval) : kFirstPlainInterval;
  since_plain_ = 0;
}

}  // namespace lapidary::decode
