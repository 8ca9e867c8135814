#include "decode/speculation.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

namespace lapidary::decode {
namespace {

constexpr std::size_t kMaxReasons = 8;

}  // namespace

// What all texts share. It lives as long as any of them.
struct Speculation::Engine {
  std::vector<SourceKind> sources;
  PolicyOptions options;
  RoundCosts costs;
  Clock clock;
  std::vector<std::unique_ptr<Drafting>> idle{};
  std::vector<std::string_view> names{};

  std::unique_ptr<Drafting> make() {
    std::vector<std::unique_ptr<DraftSource>> made;
    for (const SourceKind& source : sources) made.push_back(source.make());
    return std::make_unique<Drafting>(std::move(made), options, costs, clock);
  }
};

double Speculation::steady_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Speculation::Speculation(std::vector<SourceKind> sources, std::optional<int> fixed_k, Clock clock) {
  PolicyOptions options;
  options.fixed_k = fixed_k;
  std::vector<SourceCost> costs;
  for (const SourceKind& source : sources) {
    options.sources.push_back(source.prior);
    costs.push_back({source.prior.draft_steps, source.prior.block});
  }
  engine_ = std::make_shared<Engine>(Engine{std::move(sources), std::move(options), RoundCosts(costs), std::move(clock)});
  engine_->idle.push_back(engine_->make());
  for (std::size_t i = 0; i < engine_->sources.size(); ++i) engine_->names.push_back(engine_->idle.front()->source_name(i));
}

Speculation::Text Speculation::begin_text(const std::optional<DraftChoice>& choice, std::span<const std::int32_t> prediction) {
  auto& idle = engine_->idle;
  if (idle.empty()) idle.push_back(engine_->make());
  Text text(idle.back().release(), Return{engine_});
  idle.pop_back();
  text->begin_text(choice.value_or(DraftChoice{.sources = {true, true, true}, .fixed_k = engine_->options.fixed_k}), prediction);
  return text;
}

void Speculation::Return::operator()(Drafting* drafting) const { engine->idle.emplace_back(drafting); }

const RoundCosts& Speculation::costs() const { return engine_->costs; }
std::size_t Speculation::source_count() const { return engine_->sources.size(); }
std::string_view Speculation::source_name(std::size_t i) const { return engine_->names[i]; }

Drafting::Drafting(std::vector<std::unique_ptr<DraftSource>> sources, const PolicyOptions& options, RoundCosts& costs,
                   const Clock& clock)
    : sources_(std::move(sources)), costs_(costs), policy_(options, costs), clock_(clock) {}

void Drafting::begin_text(const DraftChoice& choice, std::span<const std::int32_t> prediction) {
  choice_ = choice;
  for (const auto& source : sources_) source->begin_text(prediction);
  stats_ = {};
  stats_.plain_rounds.reserve(kMaxReasons);
  policy_.begin_request();
  policy_.fix(choice.fixed_k);
}

void Drafting::count_plain(std::string_view reason) {
  auto& all = stats_.plain_rounds;
  const auto found = std::ranges::find(all, reason, &std::pair<std::string_view, std::int64_t>::first);
  if (found == all.end()) all.emplace_back(reason, 1);
  else ++found->second;
}

Drafting::Proposals Drafting::ask_all(std::span<const std::int32_t> history, int most) {
  Proposals proposals;
  for (std::size_t i = 0; most > 0 && i < sources_.size(); ++i) {
    if (!choice_.sources[i]) continue;
    proposals.drafts[i] = sources_[i]->propose(history, most);
    proposals.counts[i] = proposals.drafts[i].count;
  }
  return proposals;
}

Drafts Drafting::add(const Decision& decision, const Proposals& proposals, double begin_s) {
  Drafts drafts;
  if (decision.k > 0) {
    drafts = proposals.drafts[decision.source];
    drafts.count = decision.k;
  }
  planned_[planned_count_++] = {decision, drafts, policy_.why_plain(), begin_s};
  return drafts;
}

Drafts Drafting::plan(std::span<const std::int32_t> history, int most) {
  planned_count_ = 0;  // of rounds that were not finished
  const double begin_s = clock_();
  const Proposals proposals = ask_all(history, most);
  return add(policy_.choose(std::span(proposals.counts).first(sources_.size())), proposals, begin_s);
}

std::optional<Drafts> Drafting::plan_ahead(std::span<const std::int32_t> history, int most) {
  assert(planned_count_ == 1);
  if (planned_[0].drafts.tokens || planned_[0].drafts.block) return std::nullopt;  // who drafts has to see the text, or how long it is
  const double begin_s = clock_();
  const Proposals proposals = ask_all(history, most);
  const auto decision = policy_.choose_ahead(std::span(proposals.counts).first(sources_.size()), planned_[0].decision);
  if (!decision) return std::nullopt;
  return add(*decision, proposals, begin_s);
}

Offer Drafting::offer(std::span<const std::int32_t> history, int most) {
  planned_count_ = 0;
  offered_s_ = clock_();
  offered_ = ask_all(history, most);
  return policy_.offer(std::span(offered_.counts).first(sources_.size()));
}

Drafts Drafting::take(int k) { return add(policy_.take(k), offered_, offered_s_); }

void Drafting::observe(const Observed& observed) {
  assert(planned_count_ > 0);
  const Planned planned = std::exchange(planned_[0], planned_[1]);
  --planned_count_;
  // One that was begun ahead had to wait for the one before it.
  const double now_s = clock_(), round_s = now_s - std::max(planned.begin_s, observed_s_);
  observed_s_ = now_s;
  const int drafted = observed.drafted, source = drafted > 0 ? planned.decision.source : -1;
  const double all_drafts_s = observed.draft_s + observed.other_draft_s;
  policy_.observe({.source = source, .drafted = drafted, .accepted = observed.accepted, .draft_s = observed.draft_s,
                   .verify_s = round_s - all_drafts_s, .other_rows = observed.other_rows, .measures = observed.measures});
  ++stats_.rounds;
  stats_.tokens += observed.accepted + 1;
  ++stats_.rounds_by_k[drafted];
  if (drafted > 0) ++stats_.rounds_by_source[source];
  else count_plain(planned.decision.k == 0 ? planned.why_plain : "refused by the grammar");
  for (int i = 0; i < drafted; ++i) ++stats_.drafted[i];
  for (int i = 0; i < observed.accepted; ++i) ++stats_.accepted[i];
  stats_.draft_s += observed.draft_s;
  stats_.verify_s += observed.verify_s;
  stats_.other_s += round_s - observed.draft_s - observed.verify_s;
}

}  // namespace lapidary::decode
