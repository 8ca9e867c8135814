#include "decode/costs.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace lapidary::decode {
namespace {

// Of logarithms.
constexpr double kFirstNoise = 0.02, kLeastNoise = 2e-3, kMostNoise = 0.1;
constexpr double kNoiseBlend = 1.0 / 16;  // the weight of a new round's
constexpr double kJitter = 0.25;          // of the noise: what has passed by the next round
constexpr double kNoStep = 1e6;           // variance of what a step takes before the first round
constexpr double kUnseen = 10;            // variance of what a width costs before its first round
constexpr double kLikelyRow = 0.3;        // one row more, in steps, where no plain round says what a step takes
constexpr double kAging = 1e-4;           // variance that what a width costs gains with every token
constexpr double kStale = 0.4;            // variance of what a round takes that is not known any more
constexpr double kUnsure = 0.01;          // variance of the width in use: time for a plain round
constexpr double kSurprise = 0.4;         // a round that takes longer than expected is believed to take half as long again at most
constexpr double kDrifted = 0.1;          // what a step takes, since the last plain round: time for another one
constexpr int kSettled = 2;               // observations
constexpr int kLeastPlainInterval = 4, kPlainInterval = 64;  // rounds

constexpr double kAccident = 1.5;         // a round is charged at most this times what it could cost

// What is assumed of costs that are not known: at most, and at best.
constexpr double kUnknownDraftSteps = 6.0;                  // a run that drafts
constexpr double kUnknownRowSteps = 2.0;                    // one row more
constexpr double kHopefulRow = 0.2, kHopefulLateRow = 0.6;  // one row more, as a share of those before it: to 4, beyond
constexpr double kHopefulBetween = 0.96;                    // a width between two that are known, of what it costs if even
constexpr double kGrowthPerToken = 0.001, kGrowth = 0.5;    // of a known cost since it was seen

constexpr double kTick_s = 1e-9;                            // no round is shorter
constexpr double kDraftBlend = 1.0 / 3.0;                   // the weight of a new cost of drafts
constexpr double kDraftGrowth = 0.2, kDraftSlackSteps = 0.1;  // it grows by no more at once: a share, and a sum

}  // namespace

RoundCosts::RoundCosts(const std::vector<SourceCost>& sources) : noise_(kFirstNoise) {
  assert(sources.size() <= sources_.size());
  std::ranges::copy(sources, sources_.begin());
  for (std::size_t s = 0; s < sources.size(); ++s) drafts_[s].run_steps = sources[s].run_steps;
  covariance_[kStep][kStep] = kNoStep;
  for (int width = 2; width < kCosts; ++width) {
    mean_[width] = std::log(1 + kLikelyRow * (width - 1));
    covariance_[width][width] = kUnseen;
  }
}

double RoundCosts::step_s() const { return std::ranges::max(count_) > 0 ? std::exp(mean_[kStep]) : 0; }

bool RoundCosts::known(int width) const {
  const double variance = covariance_[kStep][kStep] + 2 * covariance_[kStep][width] + covariance_[width][width];
  return count_[width] >= kSettled && variance < kStale;
}

bool RoundCosts::plain_is_due() const {
  if (!known(1) || since_plain_ >= kPlainInterval) return true;
  return since_plain_ >= kLeastPlainInterval &&
         (covariance_[last_width_][last_width_] > kUnsure || std::abs(mean_[kStep] - last_plain_) > kDrifted);
}

// The widest known width below; 1 where there is none.
int RoundCosts::known_below(int width) const {
  int below = width - 1;
  while (below > 1 && !known(below)) --below;
  return below;
}

// The narrowest known width above; 0 where there is none.
int RoundCosts::known_above(int width) const {
  for (int above = width + 1; above <= kMaxDrafts + 1; ++above)
    if (known(above)) return above;
  return 0;
}

bool RoundCosts::may_try(int width, int widest) const {
  const int next = known_below(width) / 2 * 2 + 2;
  return known(width) || known_above(width) > 0 || width == std::min(next, widest);
}

// Between widths that are known by interpolation; beyond them by hope.
double RoundCosts::verify_steps(int width) const {
  if (width == 1 || known(width)) return std::exp(mean_[width]);
  const int below = known_below(width), above = known_above(width);
  const double below_steps = std::exp(mean_[below]);
  if (above > 0) return kHopefulBetween * (below_steps + (std::exp(mean_[above]) - below_steps) * (width - below) / (above - below));
  if (below == 1) return 1;
  const double row_steps = std::max(0.0, below_steps - 1) / (below - 1);
  return 1 + (width <= 4 ? kHopefulRow : kHopefulLateRow) * row_steps * (width - 1);
}

double RoundCosts::may_have_grown(std::int64_t seen_at_token) const {
  return 1 + std::min(kGrowth, kGrowthPerToken * static_cast<double>(tokens_ - seen_at_token));
}

// No width costs more, as far as can be assumed before it is known.
double RoundCosts::most_verify_steps(int width) const {
  if (known(width)) return verify_steps(width) * may_have_grown(seen_at_token_[width]);
  const int below = known_below(width);
  const double below_steps = verify_steps(below);
  return std::min(below_steps + kUnknownRowSteps * (width - below), width * std::max(1.0, below_steps / below));
}

double RoundCosts::most_run_steps(int source) const {
  const DraftCost& cost = drafts_[source];
  return cost.seen ? cost.run_steps * may_have_grown(cost.seen_at_token) : kUnknownDraftSteps;
}

double RoundCosts::worst_loss_steps(int source, int k) const {
  return most_verify_steps(k + 1) + runs(source, k) * most_run_steps(source) - 1;
}

// A step has become dearer only when a plain round says so, but cheaper as soon as any round is.
double RoundCosts::steps_of(int source, int k, double draft_s, double verify_s) const {
  if (count_[1] == 0) return 0;
  const double step_s = std::exp(std::min(mean_[kStep], last_plain_));
  return std::min(verify_s / step_s, kAccident * most_verify_steps(k + 1)) +
         std::min(draft_s / step_s, kAccident * runs(source, k) * most_run_steps(source));
}

void RoundCosts::observe_drafts(int source, int k, double draft_s) {
  const double step_s = this->step_s();
  if (step_s == 0) return;
  DraftCost& cost = drafts_[source];
  const double more_steps = draft_s / runs(source, k) / step_s - cost.run_steps;
  cost.run_steps += cost.seen ? std::min(kDraftBlend * more_steps, kDraftGrowth * cost.run_steps + kDraftSlackSteps) : more_steps;
  cost.seen = true;
  cost.seen_at_token = tokens_;
}

void RoundCosts::observe_round(int width, double verify_s) {
  const double observed = std::log(std::max(verify_s, kTick_s)), expected = mean_[kStep] + mean_[width];
  if (width > 1 && count_[width] == 1 && observed < expected) forget(width);  // the first was an accident: nothing else makes a round faster

  // What is observed is the sum of two logarithms; that of width 1 is 0, and certain.
  covariance_[kStep][kStep] += noise_;
  std::array<double, kCosts> shared;  // covariance of each with what is observed
  for (int i = 0; i < kCosts; ++i) shared[i] = covariance_[i][kStep] + covariance_[i][width];
  const double variance = shared[kStep] + shared[width] + kJitter * noise_;
  const double surprise = std::min(observed - expected, std::max(kSurprise, std::sqrt(variance)));
  if (known(width)) {
    const double seen_noise = std::min(surprise * surprise, kSurprise * kSurprise);
    noise_ = std::clamp(noise_ + kNoiseBlend * (seen_noise - noise_), kLeastNoise, kMostNoise);
  }
  for (int i = 0; i < kCosts; ++i) {
    mean_[i] += shared[i] / variance * surprise;
    for (int j = 0; j < kCosts; ++j) covariance_[i][j] -= shared[i] * shared[j] / variance;
  }
  mean_[width] = std::min(mean_[width], std::log(static_cast<double>(width)));

  ++count_[width];
  seen_at_token_[width] = tokens_;
  since_plain_ = width == 1 ? 0 : since_plain_ + 1;
  if (width == 1) last_plain_ = mean_[kStep];
  else last_width_ = width;
}

void RoundCosts::forget(int width) {
  for (int i = 0; i < kCosts; ++i) covariance_[i][width] = covariance_[width][i] = 0;
  covariance_[width][width] = kUnseen;
}

void RoundCosts::advance(int tokens) {
  tokens_ += tokens;
  for (int width = 2; width < kCosts; ++width) covariance_[width][width] += kAging * tokens;
}

}  // namespace lapidary::decode
