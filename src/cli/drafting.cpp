#include "cli/drafting.hpp"

#include <algorithm>
#include <cstdio>

#include "cli/flags.hpp"
#include "engine/stats.hpp"

namespace lapidary::cli {
namespace {

using decode::kMaxDrafts;
using engine::DraftKind;

using NamedKind = std::pair<const char*, DraftKind>;
constexpr NamedKind kKinds[] = {
    {"auto", DraftKind::automatic}, {"mtp", DraftKind::mtp}, {"dflash", DraftKind::dflash}, {"lookup", DraftKind::lookup}, {"none", DraftKind::none}};

}  // namespace

void DraftFlags::add_drafters_to(CLI::App& command, const char* more_names) {
  add_paths(command, std::string("--draft-model,--model-draft") + more_names, options.drafters, "DIR",
            "folder of a drafter, repeated for one of each kind (default: those beside the model that fit)");
  std::vector<std::string> kinds;
  for (const auto& [name, kind] : kKinds) kinds.emplace_back(name);
  add_choice(command, "--draft-kind", kinds,
             [this](const std::string& name) { options.kind = std::ranges::find(kKinds, name, &NamedKind::first)->second; },
             "who drafts: mtp is the assistant, dflash the drafter of blocks, lookup repetitions in the text (default: auto, whoever there is)");
}

void DraftFlags::add_to(CLI::App& command, const char* more_names) {
  add_drafters_to(command, more_names);
  add_choice(command, "--draft-tokens", {"auto", "0", "1", "2", "3", "4", "5", "6", "7"},
             [this](const std::string& text) { options.tokens = text == "auto" ? std::nullopt : std::optional(std::stoi(text)); },
             "drafts per round (default: auto)");
}

void DraftFlags::check() const {
  if (!options.drafters.empty() && !options.wants_assistant() && !options.wants_dflash())
    fail(ErrorKind::usage, "--draft-model", "expected --draft-kind auto, mtp or dflash with it, got another");
}

void print_draft_stats(const decode::Speculation& speculation, const decode::SpeculationStats& stats) {
  std::fprintf(stderr, "rounds %lld, %.2f tokens per round; draft %.3f s, verify %.3f s, other %.3f s\n",
               static_cast<long long>(stats.rounds), stats.tokens_per_round(), stats.draft_s, stats.verify_s, stats.other_s);
  std::fprintf(stderr, "drafts per round:");
  for (int k = 0; k <= kMaxDrafts; ++k)
    if (stats.rounds_by_k[k]) std::fprintf(stderr, " %d x%lld", k, static_cast<long long>(stats.rounds_by_k[k]));
  std::fprintf(stderr, "; accepted by position:");
  for (int i = 0; i < kMaxDrafts && stats.drafted[i]; ++i)
    std::fprintf(stderr, " %.2f", engine::acceptance(stats, i));
  for (std::size_t i = 0; i < speculation.source_count(); ++i)
    std::fprintf(stderr, "%s%s x%lld", i ? ", " : "; by ", std::string(speculation.source_name(i)).c_str(),
                 static_cast<long long>(stats.rounds_by_source[i]));
  std::fprintf(stderr, "\n");
  for (const auto& [reason, count] : stats.plain_rounds)
    std::fprintf(stderr, "without drafts x%lld: %s\n", static_cast<long long>(count), std::string(reason).c_str());
}

void print_drafters(const engine::Model& model) {
  for (const engine::Model::Drafter& drafter : model.drafters()) {
    std::fprintf(stderr, "%s %s\n", drafter.name, drafter.origin->folder.c_str());
    for (const auto& [name, hash] : model.hashes_of(drafter)) std::fprintf(stderr, "  sha256 %s %s\n", hash.c_str(), name.c_str());
  }
}

}  // namespace lapidary::cli
