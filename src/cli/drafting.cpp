#include "cli/drafting.hpp"

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "checkpoint/sha256.hpp"
#include "decode/lookup.hpp"
#include "link/assistant.hpp"

namespace lapidary::cli {
namespace {

using decode::kMaxDrafts;
using text::Value;

const std::map<std::string, DraftKind> kKinds = {
    {"auto", DraftKind::automatic}, {"mtp", DraftKind::mtp}, {"lookup", DraftKind::lookup}, {"none", DraftKind::none}};

bool wants_assistant(DraftKind kind) { return kind == DraftKind::automatic || kind == DraftKind::mtp; }
bool wants_lookup(DraftKind kind) { return kind == DraftKind::automatic || kind == DraftKind::lookup; }

Value::Array counts_of(std::span<const std::int64_t> counts) {
  Value::Array array;
  for (const std::int64_t count : counts) array.emplace_back(count);
  return array;
}

double ratio(std::int64_t part, std::int64_t whole) {
  return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

void DraftFlags::add_to(CLI::App& command) {
  command.add_option("--draft-model", model, "folder of an assistant (default: one beside the model that fits)");
  command.add_option_function<std::string>(
             "--draft-kind", [this](const std::string& name) { kind = kKinds.at(name); },
             "who drafts: auto, mtp (the assistant), lookup (repetitions in the text) or none (default: auto)")
      ->check(CLI::IsMember(kKinds));
  command.add_option_function<std::string>(
             "--draft-tokens", [this](const std::string& text) { if (text != "auto") tokens = std::stoi(text); },
             "drafts per round, 0 to 7, or auto (default: auto)")
      ->check(CLI::IsMember(std::set<std::string>{"auto", "0", "1", "2", "3", "4", "5", "6", "7"}));
}

Pairing pair(const DraftFlags& flags, const std::string& target_folder) {
  const Config target = link::read_config(target_folder);
  Pairing pairing{.graph = &link::find_graph(target.shape, target_folder), .assistant = std::nullopt};
  if (!wants_assistant(flags.kind)) {
    if (!flags.model.empty()) fail(ErrorKind::usage, "--draft-model", "expected --draft-kind auto or mtp with it, got another");
    return pairing;
  }
  pairing.assistant = flags.model.empty() ? link::find_assistant(target_folder, target.shape) : flags.model;
  if (pairing.assistant) pairing.graph = &link::find_pair_graph(target.shape, *pairing.assistant);
  if (!pairing.assistant && flags.kind == DraftKind::mtp)
    fail(ErrorKind::usage, "--draft-kind", "mtp, expected an assistant beside " + target_folder + " or --draft-model, got none");
  return pairing;
}

decode::Speculation make_speculation(const DraftFlags& flags, const link::Program& program) {
  std::vector<decode::Speculation::Source> sources;
  if (wants_assistant(flags.kind) && program.assistant) {
    const auto bytes = [](const link::TokenCost& cost) { return static_cast<double>(cost.weight_bytes); };
    const double draft_steps = bytes(link::cost_of_draft(program)) / bytes(link::cost_of_token(program));
    sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {.draft_steps = draft_steps}});
  }
  if (wants_lookup(flags.kind))
    sources.push_back({[tokens = program.plan.context_tokens] { return std::make_unique<decode::Lookup>(tokens); }, {}});
  return decode::Speculation(std::move(sources), flags.tokens);
}

FileHashes hashes_of(const std::string& folder) {
  FileHashes hashes;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors" || entry.path().filename() == "config.json")
      hashes[entry.path().filename().string()] = sha256_of_file(entry.path().string());
  return hashes;
}

Value draft_stats(const decode::Speculation& speculation, const decode::SpeculationStats& stats, const std::string& assistant,
                  const FileHashes& hashes) {
  Value::Object sources, plain, sha256;
  for (std::size_t i = 0; i < speculation.source_count(); ++i)
    sources.emplace_back(std::string(speculation.source_name(i)), stats.rounds_by_source[i]);
  for (const auto& [reason, count] : stats.plain_rounds) plain.emplace_back(std::string(reason), count);
  Value::Array acceptance;
  for (int i = 0; i < kMaxDrafts; ++i) acceptance.emplace_back(ratio(stats.accepted[i], stats.drafted[i]));
  Value::Object object{
      {"rounds", stats.rounds},
      {"rounds_by_source", std::move(sources)},
      {"rounds_by_draft_tokens", counts_of(stats.rounds_by_k)},
      {"drafted_by_position", counts_of(stats.drafted)},
      {"accepted_by_position", counts_of(stats.accepted)},
      {"acceptance_by_position", std::move(acceptance)},
      {"plain_rounds", std::move(plain)},
      {"draft_s", stats.draft_s},
      {"verify_s", stats.verify_s},
      {"other_s", stats.other_s},
  };
  if (!assistant.empty()) {
    for (const auto& [name, hash] : hashes) sha256.emplace_back(name, hash);
    object.emplace_back("assistant", assistant);
    object.emplace_back("assistant_sha256", std::move(sha256));
  }
  return object;
}

void print_draft_stats(const decode::Speculation& speculation, const decode::SpeculationStats& stats, const std::string& assistant,
                       const FileHashes& hashes) {
  std::fprintf(stderr, "rounds %lld, %.2f tokens per round; draft %.3f s, verify %.3f s, other %.3f s\n",
               static_cast<long long>(stats.rounds), stats.tokens_per_round(), stats.draft_s, stats.verify_s, stats.other_s);
  std::fprintf(stderr, "drafts per round:");
  for (int k = 0; k <= kMaxDrafts; ++k)
    if (stats.rounds_by_k[k]) std::fprintf(stderr, " %d x%lld", k, static_cast<long long>(stats.rounds_by_k[k]));
  std::fprintf(stderr, "; accepted by position:");
  for (int i = 0; i < kMaxDrafts && stats.drafted[i]; ++i)
    std::fprintf(stderr, " %.2f", ratio(stats.accepted[i], stats.drafted[i]));
  for (std::size_t i = 0; i < speculation.source_count(); ++i)
    std::fprintf(stderr, "%s%s x%lld", i ? ", " : "; by ", std::string(speculation.source_name(i)).c_str(),
                 static_cast<long long>(stats.rounds_by_source[i]));
  std::fprintf(stderr, "\n");
  for (const auto& [reason, count] : stats.plain_rounds)
    std::fprintf(stderr, "without drafts x%lld: %s\n", static_cast<long long>(count), std::string(reason).c_str());
  if (assistant.empty()) return;
  std::fprintf(stderr, "assistant %s\n", assistant.c_str());
  for (const auto& [name, hash] : hashes)
    std::fprintf(stderr, "  sha256 %s %s\n", hash.c_str(), name.c_str());
}

}  // namespace lapidary::cli
