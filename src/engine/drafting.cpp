#include "engine/drafting.hpp"

#include "decode/lookup.hpp"
#include "link/assistant.hpp"

namespace lapidary::engine {

Pairing pair(const DraftOptions& options, const std::string& target_folder) {
  const Config target = link::read_config(target_folder);
  if (target.assistant)
    fail(ErrorKind::unsupported, target_folder, "expected a model, got an assistant, which goes to --draft-model");
  Pairing pairing{.graph = &link::find_graph(target.shape, target_folder), .assistant = std::nullopt};
  if (!options.wants_assistant()) return pairing;
  pairing.assistant = options.assistant.empty() ? link::find_assistant(target_folder, target.shape) : options.assistant;
  if (pairing.assistant) pairing.graph = &link::find_pair_graph(target.shape, *pairing.assistant);
  if (!pairing.assistant && options.kind == DraftKind::mtp)
    fail(ErrorKind::usage, "drafting", "mtp, expected an assistant beside " + target_folder + " or one that is named, got none");
  return pairing;
}

std::size_t source_bytes(const DraftOptions& options, std::int32_t context_tokens) {
  return options.wants_lookup() ? decode::Lookup::memory_bytes(context_tokens) : 0;
}

decode::Speculation make_speculation(const DraftOptions& options, const link::Program& program) {
  std::vector<decode::Speculation::SourceKind> sources;
  if (options.wants_assistant() && program.assistant) {
    const auto bytes = [](const link::TokenCost& cost) { return static_cast<double>(cost.weight_bytes); };
    const double draft_steps = bytes(link::cost_of_draft(program)) / bytes(link::cost_of_token(program));
    sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {.draft_steps = draft_steps}});
  }
  if (options.wants_lookup())
    sources.push_back({[tokens = program.plan.context_tokens] { return std::make_unique<decode::Lookup>(tokens); }, {}});
  return decode::Speculation(std::move(sources), options.tokens);
}

decode::DraftChoice choose_drafts(const decode::Speculation& speculation, const DraftOptions& options) {
  decode::DraftChoice choice{.fixed_k = options.tokens};
  bool any = false;
  for (std::size_t i = 0; i < speculation.source_count(); ++i) {
    choice.sources[i] = speculation.source_name(i) == "lookup" ? options.wants_lookup() : options.wants_assistant();
    any = any || choice.sources[i];
  }
  if (!any && (options.kind == DraftKind::mtp || options.kind == DraftKind::lookup))
    fail(ErrorKind::usage, "draft", "expected a kind that the model was loaded with, got another");
  return choice;
}

}  // namespace lapidary::engine
