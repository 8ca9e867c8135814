// Drafting for the texts of one engine: which source makes how many drafts in the next round, and what became of them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/draft.hpp"
#include "decode/policy.hpp"

namespace lapidary::decode {

// The assistant drafts inside the graph: there is nothing to do here.
class Assistant final : public DraftSource {
 public:
  std::string_view name() const override { return "mtp"; }
  Drafts propose(std::span<const std::int32_t>, int most) override { return {most, nullptr}; }
};

// Of one text.
struct SpeculationStats {
  std::int64_t rounds = 0, tokens = 0;  // tokens: chosen by rounds
  std::array<std::int64_t, kMaxDrafts + 1> rounds_by_k{};
  std::array<std::int64_t, kMaxDrafts> drafted{}, accepted{};  // by position
  std::array<std::int64_t, Policy::kMaxSources> rounds_by_source{};
  std::vector<std::pair<std::string_view, std::int64_t>> plain_rounds;  // why a round had no drafts, how often
  double draft_s = 0, verify_s = 0, other_s = 0;

  double tokens_per_round() const { return rounds ? static_cast<double>(tokens) / static_cast<double>(rounds) : 0.0; }
};

class Speculation {
 public:
  using Clock = std::function<double()>;  // seconds since some moment
  static double steady_clock();

  struct Source {
    std::unique_ptr<DraftSource> source;
    SourcePrior prior{};
  };
  // Without sources every round is a plain one.
  explicit Speculation(std::vector<Source> sources = {}, std::optional<int> fixed_k = std::nullopt,
                       Clock clock = steady_clock);

  void begin_text();
  void landmark() { policy_.landmark(); }

  // The drafts of the next round, at most `most`, after `history`, whose last token is the bonus token.
  Drafts plan(std::span<const std::int32_t> history, int most);
  // Those of the round behind it, before it is known how the first goes: `history` is the same. Nothing where that matters.
  std::optional<Drafts> plan_ahead(std::span<const std::int32_t> history, int most);
  // How the oldest of the planned rounds went: `drafted` were verified, after `draft_s` in the draft segment and `verify_s`
  // in those after it.
  void observe(int drafted, int accepted, double draft_s, double verify_s);

  const SpeculationStats& stats() const { return stats_; }
  const Policy& policy() const { return policy_; }
  std::size_t source_count() const { return sources_.size(); }
  std::string_view source_name(std::size_t i) const { return sources_[i]->name(); }

 private:
  struct Proposals {
    std::array<Drafts, Policy::kMaxSources> drafts{};
    std::array<int, Policy::kMaxSources> counts{};
  };
  struct Planned {
    Choice choice{};
    Drafts drafts{};
    std::string_view why_plain{};
    double begin_s = 0;  // when its planning began
  };
  Proposals ask_all(std::span<const std::int32_t> history, int most);
  Drafts add(const Choice& choice, const Proposals& proposals, double begin_s);
  void count_plain(std::string_view reason);

  std::vector<std::unique_ptr<DraftSource>> sources_;
  Policy policy_;
  Clock clock_;
  std::array<Planned, 2> planned_{};  // rounds that have not been observed, the oldest first
  std::size_t planned_count_ = 0;
  double observed_s_ = 0;             // when the last one was
  SpeculationStats stats_;
};

}  // namespace lapidary::decode
