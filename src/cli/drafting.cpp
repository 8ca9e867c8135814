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
    {"auto", DraftKind::automatic}, {"mtp", DraftKind::mtp}, {"lookup", DraftKind::lookup}, {"none", DraftKind::none}};

}  // namespace

void DraftFlags::add_to(CLI::App& command) {
  add_path(command, "--draft-model,--model-draft", options.assistant, "DIR",
           "folder of an assistant (default: one beside the model that fits)");
  std::vector<std::string> kinds;
  for (const auto& [name, kind] : kKinds) kinds.emplace_back(name);
  add_choice(command, "--draft-kind", kinds,
             [this](const std::string& name) { options.kind = std::ranges::find(kKinds, name, &NamedKind::first)->second; },
             "who drafts: mtp is the assistant, lookup repetitions in the text (default: auto, whoever there is)");
  add_choice(command, "--draft-tokens", {"auto", "0", "1", "2", "3", "4", "5", "6", "7"},
             [this](const std::string& text) { options.tokens = text == "auto" ? std::nullopt : std::optional(std::stoi(text)); },
             "drafts per round (default: auto)");
}

void DraftFlags::check() const {
  if (!options.assistant.empty() && !options.wants_assistant())
    fail(ErrorKind::usage, "--draft-model", "expected --draft-kind auto or mtp with it, got another");
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

void print_assistant(const engine::Model& model) {
  if (model.assistant().empty()) return;
  std::fprintf(stderr, "assistant %s\n", model.assistant().c_str());
  for (const auto& [name, hash] : model.assistant_hashes())
    std::fprintf(stderr, "  sha256 %s %s\n", hash.c_str(), name.c_str());
}

}  // namespace lapidary::cli
