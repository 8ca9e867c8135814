// How many tokens to draft, and from which source: whatever has paid best so far, and nothing where drafting loses. It sees
// only what rounds cost and gave, never a clock, and its decisions never change the output.
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

#include "decode/costs.hpp"
#include "decode/draft.hpp"

namespace lapidary::decode {

// What a round cost and gave.
struct RoundOutcome {
  int source = -1;        // who drafted; -1 when drafted is 0
  int drafted = 0;        // k
  int accepted = 0;       // 0..k
  double draft_s = 0;     // making the drafts
  double verify_s = 0;    // everything else: k + 1 rows and those of others
  int other_rows = 0;     // of sessions in the same round
  bool measures = true;   // false: another session of the round says what it cost
};

// What is believed of a source before it has drafted.
struct SourcePrior {
  double draft_steps = 0;   // what one run that drafts costs, in steps
  double acceptance = 0.7;  // of a draft whose predecessors were accepted
  bool block = false;       // one run makes all drafts of a round
};

struct PolicyOptions {
  std::vector<SourcePrior> sources;  // at most kMaxDraftSources
  int kmax = kMaxDrafts;
  std::optional<int> fixed_k{};      // always this k, as far as the offers go
};

struct Decision {
  int source = -1;
  int k = 0;  // 0 = a plain round

  bool operator==(const Decision&) const = default;
};

// What a text could draft in a round that it shares with others.
struct Offer {
  int source = -1, count = 0;
  std::array<double, kMaxDrafts> tokens{};  // that each draft is expected to add
  double run_s = 0;                         // of one run that drafts: each, or all
  bool block = false;
  bool fixed = false;                       // wanted whatever they cost
};

// How many drafts each of the texts makes in a round of at most `rows` rows: those that are expected to add most, as many as make
// tokens come fastest. No promise as for a text alone is kept here: nothing but what is known and hoped for decides.
using RowShares = std::array<int, graph::kMaxVerifyRows>;  // k by text
RowShares share_rows(std::span<const Offer> offers, const RoundCosts& costs, int rows);

class Policy {
 public:
  // `costs`: of the engine, with the same sources; must outlive it.
  Policy(const PolicyOptions& options, RoundCosts& costs);

  // offers[source]: how many drafts it could make this round. Once per round.
  Decision choose(std::span<const int> offers);
  // Likewise for the round behind one that is chosen and not observed yet; nothing where that should be observed first.
  std::optional<Decision> choose_ahead(std::span<const int> offers, const Decision& before);
  void observe(const RoundOutcome& observed);

  // For a round that others share, instead of choose(): what could be drafted, then how much of it is.
  Offer offer(std::span<const int> offers);
  Decision take(int k);

  // A new text begins: what earlier texts accepted counts half, and a source that is off gets another chance soon.
  void begin_request();
  void fix(std::optional<int> k) { fixed_k_ = k; }  // instead of what the options said
  // The text changes its nature (a thought ends, a tool call begins): a source that is off gets another chance at once.
  void landmark();

  // Why the last decision was a plain round; empty when it was not.
  std::string_view why_plain() const { return why_plain_; }
  // Of draft `position` (1..kmax) when those before it were accepted.
  double acceptance(int source, int position) const;

 private:
  struct Tally {  // decayed counts
    double reached = 0, accepted = 0;
    double estimate(double otherwise) const;
  };

  struct SourceRecord {
    SourcePrior prior;
    std::array<Tally, kMaxDrafts + 1> tallies{};  // by position
    bool on = true;
    bool proven = false;      // has been profitable since it was turned on
    int rounds = 0;           // drafted since it was turned on
    std::int64_t drafted_at_token = 0;
    int unprofitable = 0;     // rounds in a row
    double wait_tokens = 0;   // until it is tried again, while off
    double waited_tokens = 0;
    double interval_tokens = 0;
  };

  using ByDrafts = std::array<double, kMaxDrafts + 1>;
  ByDrafts expected_tokens(int source) const;
  ByDrafts gains(int source, int most) const;
  bool affordable(int source, int k) const;
  bool consider(SourceRecord& source, double best_gain);
  Decision fixed_decision(std::span<const int> offers) const;
  void charge(const RoundOutcome& outcome);
  void observe_drafts(const RoundOutcome& outcome);
  void forget(SourceRecord& source, double kept);

  RoundCosts* costs_;
  std::array<SourceRecord, kMaxDraftSources> sources_{};
  int source_count_;
  int kmax_;
  std::optional<int> fixed_k_;
  Decision current_{};
  Offer offered_{};
  std::int64_t tokens_ = 0;
  double account_steps_ = 0;  // what drafting has lost
  double gained_steps_ = 0;   // what it has gained so far, by the same count
  std::string_view why_plain_{};
};

}  // namespace lapidary::decode
