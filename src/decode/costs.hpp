// What rounds cost on an engine, as far as has been seen: by the number of their rows, whosever these are, and drafts by who makes
// them. All generations of the engine learn it together.
//
// A step is a plain round: one row, one token.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "decode/draft.hpp"

namespace lapidary::decode {

inline constexpr int kMaxDraftSources = 3;

// What a source of drafts costs before it has made any, and how costs grow with their number.
struct SourceCost {
  double run_steps = 0;  // of one run, in steps
  bool block = false;    // one run makes all drafts of a round, otherwise each takes one
};

class RoundCosts {
 public:
  explicit RoundCosts(const std::vector<SourceCost>& sources);

  // What a round of `width` rows is expected to cost, without making the drafts; 0 before the first round.
  double verify_s(int width) const;
  double run_s(int source) const;  // of one run of a source
  double drafts_s(int source, int k) const { return runs(source, k) * run_s(source); }
  // Of a whole round with k drafts.
  double round_steps(int source, int k) const { return (verify_s(k + 1) + drafts_s(source, k)) / verify_s(1); }
  bool known(int width) const { return verify_[width].settled(); }
  // Whether a width is to be tried now: narrower ones come first, two by two. `widest`: that could be.
  bool may_try(int width, int widest) const;
  // A cost that all others are judged against must not go stale.
  bool plain_is_due() const;

  // What a round with k drafts may lose at most, in steps, as far as can be assumed.
  double worst_loss_steps(int source, int k) const;
  // What it cost, in steps: at most what can be believed, at least as the step may have become cheaper. 0 before the first step.
  double steps_of(int source, int k, double draft_s, double verify_s) const;

  // What was seen of a round of so many rows, and of making drafts before it.
  void observe_round(int width, double verify_s);
  void observe_drafts(int source, int k, double draft_s);
  void advance(int tokens) { tokens_ += tokens; }  // that rounds have given

 private:
  // An average that follows drifts and changes, but no single accident.
  struct Cost {
    double value_s = 0;
    double odd_s = 0;          // of the last odd_count observations, too high to be believed, the lowest
    int odd_count = 0;
    int count = 0;             // observations, up to 2: by then it is settled
    bool since_plain = false;  // observed since the last plain round
    std::int64_t seen_at_token = 0;
    double excess = 1;         // of what was last seen over the average, at least 1

    bool settled() const { return count == 2; }
    bool observe(double observed_s, double slack_s, double most_s);  // whether it was believed, as at most most_s
  };

  int runs(int source, int k) const { return sources_[source].block ? (k > 0) : k; }
  int settled_below(int width) const;
  int settled_above(int width) const;
  double least_step_s(double change) const;
  double may_have_grown(const Cost& cost) const;
  double most_verify_s(int width) const;
  double most_run_s(int source) const;
  double slack_s() const;
  void observe_plain(double plain_s);
  void learn(Cost& cost, double observed_s, double slack_s, double most_s);
  double now_s(const Cost& cost) const { return cost.since_plain ? cost.value_s : cost.value_s * drift_; }

  std::array<Cost, kMaxDrafts + 2> verify_{};  // by width; 1 = a step
  std::array<Cost, kMaxDraftSources> draft_{};
  std::array<SourceCost, kMaxDraftSources> sources_{};
  double drift_ = 1;         // by how much costs have changed since the last plain round, as far as seen
  double last_plain_s_ = 0;  // as observed
  int since_plain_ = 0;      // rounds
  int plain_interval_;       // rounds
  int plain_wanted_ = 0;     // rounds, because the last one did not cost what was expected
  std::int64_t tokens_ = 0;
};

}  // namespace lapidary::decode
