#include "decode/speculation.hpp"

#include <algorithm>
#include <chrono>

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

Drafts Speculation::plan(std::span<const std::int32_t> history, int most) {
  begin_s_ = clock_();
  std::array<Drafts, Policy::kMaxSources> proposals{};
  std::array<int, Policy::kMaxSources> offers{};
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (most > 0) proposals[i] = sources_[i]->propose(history, most);
    offers[i] = proposals[i].count;
  }
  const Choice choice = policy_.choose(std::span(offers).first(sources_.size()));
  source_ = choice.k > 0 ? choice.source : -1;
  return source_ < 0 ? Drafts{} : Drafts{choice.k, proposals[source_].tokens};
}

void Speculation::observe(int drafted, int accepted, double draft_s, double verify_s) {
  const double round_s = clock_() - begin_s_;
  policy_.observe({.source = drafted > 0 ? source_ : -1, .drafted = drafted, .accepted = accepted, .draft_s = draft_s,
                   .verify_s = round_s - draft_s});
  ++stats_.rounds;
  stats_.tokens += accepted + 1;
  ++stats_.rounds_by_k[drafted];
  if (drafted > 0) ++stats_.rounds_by_source[source_];
  else count_plain(source_ < 0 ? policy_.why_plain() : "refused by the grammar");
  for (int i = 0; i < drafted; ++i) ++stats_.drafted[i];
  for (int i = 0; i < accepted; ++i) ++stats_.accepted[i];
  stats_.draft_s += draft_s;
  stats_.verify_s += verify_s;
  stats_.other_s += round_s - draft_s - verify_s;
}

}  // namespace lapidary::decode
