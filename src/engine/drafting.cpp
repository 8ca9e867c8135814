#include "engine/drafting.hpp"

#include "decode/lookup.hpp"

namespace lapidary::engine {

link::Pairing pair(const DraftOptions& options, const std::string& target_folder) {
  const Config target = link::read_config(target_folder);
  if (target.assistant || target.dflash)
    fail(ErrorKind::unsupported, target_folder, "expected a model, got a drafter, which goes to --draft-model");
  const link::Pairing pairing = link::pair(
      target.shape, options.drafters.empty() ? link::find_drafters(target_folder, target.shape, options.wanted()) : options.drafters, target_folder);
  check_kinds(options, pairing, target_folder);
  return pairing;
}

void check_kinds(const DraftOptions& options, const link::Pairing& pairing, const std::string& target_folder) {
  const auto check = [&](const char* kind, DraftKind forced, bool wants, const std::string& folder) {
    if (options.kind == forced && folder.empty())
      fail(ErrorKind::usage, "drafting", std::string(kind) + ", expected a drafter of this kind beside " + target_folder + " or one that is named, got none");
    if (!wants && !folder.empty())
      fail(ErrorKind::usage, "drafting", "expected only drafters of the kind that is asked for, got one for " + std::string(kind) + ": " + folder);
  };
  check("mtp", DraftKind::mtp, options.wants_assistant(), pairing.assistant);
  check("dflash", DraftKind::dflash, options.wants_dflash(), pairing.dflash);
}

std::size_t source_bytes(const DraftOptions& options, std::int32_t context_tokens) {
  return options.wants_lookup() ? decode::Lookup::memory_bytes(context_tokens) : 0;
}

decode::Speculation make_speculation(const DraftOptions& options, const link::Program& program) {
  std::vector<decode::Speculation::SourceKind> sources;
  const auto steps = [&](const link::TokenCost& cost) {
    return static_cast<double>(cost.weight_bytes) / static_cast<double>(link::cost_of_token(program).weight_bytes);
  };
  if (options.wants_assistant() && program.assistant)
    sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {.draft_steps = steps(link::cost_of_draft(program))}});
  if (options.wants_dflash() && program.dflash)
    sources.push_back({[block = program.graph->dflash->block] { return std::make_unique<decode::DFlash>(block); },
                       {.draft_steps = steps(link::cost_of_block(program)), .block = true}});
  if (options.wants_lookup())
    sources.push_back({[tokens = program.plan.context_tokens] { return std::make_unique<decode::Lookup>(tokens); }, {}});
  return decode::Speculation(std::move(sources), options.tokens);
}

decode::DraftChoice choose_drafts(const decode::Speculation& speculation, const DraftOptions& options) {
  decode::DraftChoice choice{.fixed_k = options.tokens};
  bool any = false;
  for (std::size_t i = 0; i < speculation.source_count(); ++i) {
    const std::string_view name = speculation.source_name(i);
    choice.sources[i] = name == "lookup" ? options.wants_lookup() : name == "dflash" ? options.wants_dflash() : options.wants_assistant();
    any = any || choice.sources[i];
  }
  if (!any && options.kind != DraftKind::automatic && options.kind != DraftKind::none)
    fail(ErrorKind::usage, "draft", "expected a kind that the model was loaded with, got another");
  return choice;
}

}  // namespace lapidary::engine
