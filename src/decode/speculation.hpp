// Drafting for the texts of one engine: which source makes how many drafts in the next round, and what became of them. The engine
// has a Speculation, each text that is being generated a Drafting of it: what rounds cost is learnt together, what is accepted by
// each text for itself.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/costs.hpp"
#include "decode/draft.hpp"
#include "decode/policy.hpp"

namespace lapidary::decode {

// The drafters draft inside the graph: there is nothing to do here.
class Assistant final : public DraftSource {
 public:
  std::string_view name() const override { return "mtp"; }
  Drafts propose(std::span<const std::int32_t>, int most) override { return {.count = most}; }
};
class DFlash final : public DraftSource {
 public:
  explicit DFlash(int block) : block_(block) {}  // rows of its longest
  std::string_view name() const override { return "dflash"; }
  Drafts propose(std::span<const std::int32_t>, int most) override { return {.count = std::min(most, block_ - 1), .block = true}; }

 private:
  const int block_;
};

// Of one text.
struct SpeculationStats {
  std::int64_t rounds = 0, tokens = 0;  // tokens: chosen by rounds
  std::array<std::int64_t, kMaxDrafts + 1> rounds_by_k{};
  std::array<std::int64_t, kMaxDrafts> drafted{}, accepted{};  // by position
  std::array<std::int64_t, kMaxDraftSources> rounds_by_source{};
  std::vector<std::pair<std::string_view, std::int64_t>> plain_rounds;  // why a round had no drafts, how often
  double draft_s = 0, verify_s = 0, other_s = 0;

  double tokens_per_round() const { return rounds ? static_cast<double>(tokens) / static_cast<double>(rounds) : 0.0; }
};

// What of the engine's drafting a text uses.
struct DraftChoice {
  std::array<bool, kMaxDraftSources> sources{};  // by their place in the engine
  std::optional<int> fixed_k{};                  // none = chosen round by round
};

// The drafts of one text.
class Drafting {
 public:
  using Clock = std::function<double()>;  // seconds since some moment

  Drafting(std::vector<std::unique_ptr<DraftSource>> sources, const PolicyOptions& options, RoundCosts& costs, const Clock& clock);

  void begin_text(const DraftChoice& choice, std::span<const std::int32_t> prediction);
  void landmark() { policy_.landmark(); }

  // The drafts of the next round, at most `most`, after `history`, whose last token is the bonus token.
  Drafts plan(std::span<const std::int32_t> history, int most);
  // Those of the round behind it, before it is known how the first goes: `history` is the same. Nothing where that matters.
  std::optional<Drafts> plan_ahead(std::span<const std::int32_t> history, int most);
  // What the text could draft in a round with others; and then how much of that it does.
  Offer offer(std::span<const std::int32_t> history, int most);
  Drafts take(int k);

  // How the oldest of the planned rounds went.
  struct Observed {
    int drafted = 0, accepted = 0;         // as many were verified
    double draft_s = 0, verify_s = 0;      // in the draft segment for this text; in those after it for all
    int other_rows = 0;                    // of others in the round
    double other_draft_s = 0;
    bool measures = true;                  // false: another text of the round says what it cost
  };
  void observe(const Observed& observed);

  const SpeculationStats& stats() const { return stats_; }
  const RoundCosts& costs() const { return costs_; }
  std::string_view source_name(std::size_t i) const { return sources_[i]->name(); }

 private:
  struct Proposals {
    std::array<Drafts, kMaxDraftSources> drafts{};
    std::array<int, kMaxDraftSources> counts{};
  };
  struct Planned {
    Decision decision{};
    Drafts drafts{};
    std::string_view why_plain{};
    double begin_s = 0;  // when its planning began
  };
  Proposals ask_all(std::span<const std::int32_t> history, int most);
  Drafts add(const Decision& decision, const Proposals& proposals, double begin_s);
  void count_plain(std::string_view reason);

  std::vector<std::unique_ptr<DraftSource>> sources_;
  DraftChoice choice_{};
  RoundCosts& costs_;
  Policy policy_;
  const Clock& clock_;
  Proposals offered_{};               // by the last offer, and when that was begun
  double offered_s_ = 0;
  std::array<Planned, 2> planned_{};  // rounds that have not been observed, the oldest first
  std::size_t planned_count_ = 0;
  double observed_s_ = 0;             // when the last one was
  SpeculationStats stats_;
};

class Speculation {
 public:
  using Clock = Drafting::Clock;
  static double steady_clock();

  struct SourceKind {
    std::function<std::unique_ptr<DraftSource>()> make;  // one for each text that is generated at the same time
    SourcePrior prior{};
  };
  // Without sources every round is a plain one.
  explicit Speculation(std::vector<SourceKind> sources = {}, std::optional<int> fixed_k = std::nullopt,
                       Clock clock = steady_clock);

  // Drafting for a text, until that is done with it. A later one goes on with it: what its text accepted counts half then. Without a
  // choice it uses all sources, as many drafts as the engine was told. `prediction`: as DraftSource has it.
 private:
  struct Engine;
  struct Return {
    std::shared_ptr<Engine> engine;
    void operator()(Drafting* drafting) const;
  };

 public:
  using Text = std::unique_ptr<Drafting, Return>;
  Text begin_text(const std::optional<DraftChoice>& choice = std::nullopt, std::span<const std::int32_t> prediction = {});

  const RoundCosts& costs() const;
  std::size_t source_count() const;
  std::string_view source_name(std::size_t i) const;

 private:
  std::shared_ptr<Engine> engine_;
};

}  // namespace lapidary::decode
