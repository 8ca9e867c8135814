// What rounds cost on an engine, as far as has been seen: by the number of their rows, whosever these are, and drafts by who makes
// them. All generations of the engine learn it together.
//
// A step is a plain round: one row, one token. A round takes what its width costs, in steps, times what a step takes just now, on a
// machine that is not ours alone. Both are estimated together, as logarithms, with how sure they are (a Kalman filter): rounds of a
// width that is well known say how fast the machine is, and next to them others what their widths cost.
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

  // What a round of `width` rows is expected to take, without making the drafts; 0 before the first round.
  double verify_s(int width) const { return step_s() * verify_steps(width); }
  double run_s(int source) const { return step_s() * drafts_[source].run_steps; }  // of one run of a source
  // Of a whole round with k drafts.
  double round_steps(int source, int k) const { return verify_steps(k + 1) + runs(source, k) * drafts_[source].run_steps; }
  bool known(int width) const;
  // Whether a width is to be tried now: narrower ones come first, two by two. `widest`: that could be.
  bool may_try(int width, int widest) const;
  // What all others are judged by must not go stale.
  bool plain_is_due() const;

  // What a round with k drafts may lose at most, in steps, as far as can be assumed.
  double worst_loss_steps(int source, int k) const;
  // What the round that was observed last cost, in steps: at most what can be believed. 0 before the first step.
  double steps_of(int source, int k, double draft_s, double verify_s) const;

  // What was seen of a round of so many rows, and of making drafts before it.
  void observe_round(int width, double verify_s);
  void observe_drafts(int source, int k, double draft_s);
  void advance(int tokens);  // that rounds have given

 private:
  static constexpr int kStep = 0;  // what a step takes, beside the widths
  static constexpr int kCosts = kMaxDrafts + 2;

  struct DraftCost {
    double run_steps = 0;
    bool seen = false;
    std::int64_t seen_at_token = 0;
  };

  int runs(int source, int k) const { return sources_[source].block ? (k > 0) : k; }
  double step_s() const;
  double verify_steps(int width) const;
  double most_verify_steps(int width) const;
  double most_run_steps(int source) const;
  double may_have_grown(std::int64_t seen_at_token) const;
  void forget(int width);
  int known_below(int width) const;
  int known_above(int width) const;

  // Logarithms: of what a step takes, in seconds, at kStep; of what widths cost, in steps, at 2 to kMaxDrafts + 1.
  std::array<double, kCosts> mean_{};
  std::array<std::array<double, kCosts>, kCosts> covariance_{};
  double noise_;                     // variance that what a step takes gains from round to round
  std::array<int, kCosts> count_{};  // observations of a width
  std::array<std::int64_t, kCosts> seen_at_token_{};
  int last_width_ = 1;               // of those that draft
  int since_plain_ = 0;              // rounds
  double last_plain_ = 0;            // mean_[kStep] then
  std::array<DraftCost, kMaxDraftSources> drafts_{};
  std::array<SourceCost, kMaxDraftSources> sources_{};
  std::int64_t tokens_ = 0;
};

}  // namespace lapidary::decode
