// How many tokens to draft, and from which source: whatever has paid best so far, and nothing where drafting loses. It sees
// only what rounds cost and gave, never a clock, and its choices never change the output.
//
// A step is a plain round: one row, one token. The promise: over any run of rounds, drafting loses at most 1.5 % of the time
// and 8 steps against plain decoding. An account keeps it: see Policy::affordable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "decode/draft.hpp"

namespace lapidary::decode {

// What a round cost and gave.
struct RoundOutcome {
  int source = -1;        // who drafted; -1 when drafted is 0
  int drafted = 0;        // k
  int accepted = 0;       // 0..k
  double draft_s = 0;     // making the drafts
  double verify_s = 0;    // everything else: k + 1 rows
};

// What is believed of a source before it has drafted.
struct SourcePrior {
  double draft_steps = 0;   // what one draft costs, in steps
  double acceptance = 0.7;  // of a draft whose predecessors were accepted
};

struct PolicyOptions {
  std::vector<SourcePrior> sources;  // at most kMaxSources
  int kmax = kMaxDrafts;
  std::optional<int> fixed_k{};      // always this k, as far as the offers go
};

struct Choice {
  int source = -1;
  int k = 0;  // 0 = a plain round

  bool operator==(const Choice&) const = default;
};

class Policy {
 public:
  static constexpr int kMaxSources = 2;

  explicit Policy(const PolicyOptions& options);

  // offers[source]: how many drafts it could make this round. Once per round.
  Choice choose(std::span<const int> offers);
  // Likewise for the round behind one that is chosen and not observed yet; nothing where that should be observed first.
  std::optional<Choice> choose_ahead(std::span<const int> offers, const Choice& before);
  void observe(const RoundOutcome& observed);

  // A new text begins: what earlier texts accepted counts half, and a source that is off gets another chance soon.
  void begin_request();
  // The text changes its nature (a thought ends, a tool call begins): a source that is off gets another chance at once.
  void landmark();

  // Why the last choice was a plain round; empty when it was not.
  std::string_view why_plain() const { return why_plain_; }
  // Of draft `position` (1..kmax) when those before it were accepted.
  double acceptance(int source, int position) const;
  // What a round of `width` rows is expected to cost, without making the drafts; 0 before the first round.
  double verify_s(int width) const;
  double draft_s(int source) const;  // per draft

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

  struct Tally {  // decayed counts
    double reached = 0, accepted = 0;
    double estimate(double otherwise) const;
  };

  struct Source {
    SourcePrior prior;
    std::array<Tally, kMaxDrafts + 1> tallies{};  // by position
    Cost draft;                                   // of one draft
    bool on = true;
    bool proven = false;      // has been profitable since it was turned on
    int rounds = 0;           // drafted since it was turned on
    int unprofitable = 0;     // rounds in a row
    double wait_tokens = 0;   // until it is tried again, while off
    double waited_tokens = 0;
    double interval_tokens = 0;
  };

  using ByDrafts = std::array<double, kMaxDrafts + 1>;
  ByDrafts expected_tokens(int source) const;
  ByDrafts gains(int source, int most) const;
  int settled_below(int width) const;
  int settled_above(int width) const;
  double least_step_s(double change) const;
  double may_have_grown(const Cost& cost) const;
  double most_verify_s(int width) const;
  double most_draft_s(int source) const;
  double worst_loss_steps(int source, int k) const;
  bool affordable(int source, int k) const;
  bool plain_is_due() const;
  bool consider(Source& source, double best_gain);
  Choice fixed_choice(std::span<const int> offers) const;
  void observe_plain(double plain_s);
  void observe_drafted(const RoundOutcome& outcome);
  void forget(Source& source, double kept);
  double now_s(const Cost& cost) const { return cost.since_plain ? cost.value_s : cost.value_s * drift_; }

  std::array<Cost, kMaxDrafts + 2> verify_{};  // by width; 1 = a step
  double drift_ = 1;         // by how much costs have changed since the last plain round, as far as seen
  double last_plain_s_ = 0;  // as observed
  int since_plain_ = 0;      // rounds
  int plain_interval_;       // rounds
  int plain_wanted_ = 0;     // rounds, because the last one did not cost what was expected

  std::array<Source, kMaxSources> sources_{};
  int source_count_;
  int kmax_;
  std::optional<int> fixed_k_;
  Choice current_{};
  std::int64_t tokens_ = 0;
  double account_steps_ = 0;  // what drafting has lost
  std::string_view why_plain_{};
};

}  // namespace lapidary::decode
