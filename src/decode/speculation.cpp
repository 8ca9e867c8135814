#include "decode/speculation.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

namespace lapidary::decode {
namespace {

constexpr std::size_t kMaxReasons = 8;

PolicyOptions policy_options(const std::vector<Speculation::Source>& sources, std::optional<int> fixed_k) {
  PolicyOptions options;
  options.fixed_k = fixed_k;
  for (const auto& source : sources) options.sources.push_back(source.prior);
  return options;
}

}  // namespace

double Speculation::steady_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Speculation::Speculation(std::vector<Source> sources, std::optional<int> fixed_k, Clock clock)
    : policy_(policy_options(sources, fixed_k)), clock_(std::move(clock)) {
  for (Source& source : sources) sources_.push_back(std::move(source.source));
}

void Speculation::begin_text() {
  stats_ = {};
  stats_.plain_rounds.reserve(kMaxReasons);
  policy_.begin_request();
}

void Speculation::count_plain(std::string_view reason) {
  auto& all = stats_.plain_rounds;
  const auto found = std::ranges::find(all, reason, &std::pair<std::string_view, std::int64_t>::first);
  if (found == all.end()) all.emplace_back(reason, 1);
  else ++found->second;
}

Speculation::Proposals Speculation::ask_all(std::span<const std::int32_t> history, int most) {
  Proposals proposals;
  for (std::size_t i = 0; most > 0 && i < sources_.size(); ++i) {
    proposals.drafts[i] = sources_[i]->propose(history, most);
    proposals.counts[i] = proposals.drafts[i].count;
  }
  return proposals;
}

Drafts Speculation::add(const Choice& choice, const Proposals& proposals, double begin_s) {
  const Drafts drafts = choice.k > 0 ? Drafts{choice.k, proposals.drafts[choice.source].tokens} : Drafts{};
  planned_[planned_count_++] = {choice, drafts, policy_.why_plain(), begin_s};
  return drafts;
}

Drafts Speculation::plan(std::span<const std::int32_t> history, int most) {
  planned_count_ = 0;  // of rounds that were not finished
  const double begin_s = clock_();
  const Proposals proposals = ask_all(history, most);
  return add(policy_.choose(std::span(proposals.counts).first(sources_.size())), proposals, begin_s);
}

std::optional<Drafts> Speculation::plan_ahead(std::span<const std::int32_t> history, int most) {
  assert(planned_count_ == 1);
  if (planned_[0].drafts.tokens) return std::nullopt;  // who drafts here has to see the text
  const double begin_s = clock_();
  const Proposals proposals = ask_all(history, most);
  const auto choice = policy_.choose_ahead(std::span(proposals.counts).first(sources_.size()), planned_[0].choice);
  if (!choice) return std::nullopt;
  return add(*choice, proposals, begin_s);
}

void Speculation::observe(int drafted, int accepted, double draft_s, double verify_s) {
  assert(planned_count_ > 0);
  const Planned planned = std::exchange(planned_[0], planned_[1]);
  --planned_count_;
  // One that was begun ahead had to wait for the one before it.
  const double now_s = clock_(), round_s = now_s - std::max(planned.begin_s, observed_s_);
  observed_s_ = now_s;
  const int source = drafted > 0 ? planned.choice.source : -1;
  policy_.observe({.source = source, .drafted = drafted, .accepted = accepted, .draft_s = draft_s,
                   .verify_s = round_s - draft_s});
  ++stats_.rounds;
  stats_.tokens += accepted + 1;
  ++stats_.rounds_by_k[drafted];
  if (drafted > 0) ++stats_.rounds_by_source[source];
  else count_plain(planned.choice.k == 0 ? planned.why_plain : "refused by the grammar");
  for (int i = 0; i < drafted; ++i) ++stats_.drafted[i];
  for (int i = 0; i < accepted; ++i) ++stats_.accepted[i];
  stats_.draft_s += draft_s;
  stats_.verify_s += verify_s;
  stats_.other_s += round_s - draft_s - verify_s;
}

}  // namespace lapidary::decode
