// lapidary rounds: what a drafter proposed in each round and what became of it, in the words of the fixtures' rounds.json.
#include <algorithm>
#include <memory>

#include "checkpoint/whole_file.hpp"
#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/id_prompts.hpp"
#include "cli/model.hpp"
#include "cli/sampling.hpp"
#include "decode/lookup.hpp"
#include "decode/session.hpp"
#include "decode/speculation.hpp"

namespace lapidary::cli {
namespace {

using engine::DraftKind;
using text::Value;

struct RoundsFlags {
  ModelFlags model;
  DraftFlags draft;
  SamplingFlags sampling;
  std::string ids_file, output;
  std::vector<int> draft_tokens;  // of the rounds, again and again
  int tokens = 0;
};

std::unique_ptr<decode::DraftSource> source_of(DraftKind kind, const link::Program& program) {
  switch (kind) {
    case DraftKind::mtp: return std::make_unique<decode::Assistant>();
    case DraftKind::dflash: return std::make_unique<decode::DFlash>(program.graph->dflash->block);
    case DraftKind::lookup: return std::make_unique<decode::Lookup>(program.plan.context_tokens);
    case DraftKind::none: return nullptr;
    case DraftKind::automatic: break;
  }
  fail(ErrorKind::usage, "--draft-kind", "expected mtp, dflash, lookup or none, got auto");
}

Value::Array list_of(std::span<const std::int32_t> ids) { return {ids.begin(), ids.end()}; }

Value rounds_of(const link::Program& program, link::Executor& executor, const RoundsFlags& flags, const graph::Sampling& sampling,
                const IdPrompt& prompt, const Perceived& perceived) {
  decode::Session session(program, executor);
  const auto source = source_of(flags.draft.options.kind, program);
  std::vector<std::int32_t> history = prompt.ids, counts;
  graph::Request request{.sampling = sampling};
  if (sampling.penalises()) {
    counts.resize(static_cast<std::size_t>(session.vocab()));
    for (const std::int32_t id : history)
      if (id < session.vocab()) ++counts[static_cast<std::size_t>(id)];
    request.counts = counts;
  }
  std::vector<std::int32_t> drafts;
  decode::Session::RoundHooks hooks;
  hooks.prune = [&](std::span<const std::int32_t> made) {
    drafts.assign(made.begin(), made.end());
    return static_cast<int>(made.size());
  };

  session.prefill(prompt.ids, &request, perceived.soft_tokens());
  history.push_back(session.next());
  Value::Array rounds;
  const std::size_t end = prompt.ids.size() + static_cast<std::size_t>(flags.tokens);
  while (history.size() < end) {
    const std::int32_t committed = session.length(), bonus = history.back(), room = session.capacity() - committed;
    if (room == 0) fail(ErrorKind::usage, "--context", "expected room for all tokens, got " + std::to_string(session.capacity()));
    const int k = std::min(flags.draft_tokens[rounds.size() % flags.draft_tokens.size()], room - 1);
    session.begin_round(source && k ? source->propose(history, k) : decode::Drafts{}, &request, hooks);
    const decode::Session::Round round = session.end_round();
    const auto chosen = round.report.result.chosen();
    history.insert(history.end(), chosen.begin(), chosen.end());
    rounds.push_back(Value::Object{{"committed", committed}, {"bonus", bonus}, {"drafts", list_of(drafts)},
                                   {"accepted", round.report.result.accepted}, {"next", chosen.back()}});
  }
  history.resize(end);
  return Value::Object{{"input_ids", list_of(prompt.ids)}, {"tokens", list_of(std::span(history).subspan(prompt.ids.size()))},
                       {"rounds", std::move(rounds)}};
}

void run(RoundsFlags flags) {
  const std::vector<IdPrompt> prompts = read_id_prompts(flags.ids_file);
  const std::string folder = folder_of(flags.model.checkpoint);
  make_room(flags.model, prompts, folder, flags.tokens + decode::kMaxDrafts + 1);  // the last round may have drafts behind the last token
  const link::Program program = flags.model.load(flags.draft);
  const auto executor = program.backend->make(program);
  const engine::ResolvedSampling sampling(flags.sampling.options(), decode::read_generation_defaults(folder), program.graph->shape.vocab);
  Value::Array all;
  for (const IdPrompt& prompt : prompts)
    all.push_back(rounds_of(program, *executor, flags, sampling.sampling(), prompt, perceive(program, *executor, prompt, folder)));
  const std::string json = text::to_json(Value::Object{{"prompts", std::move(all)}});
  write_whole_file(flags.output, [&](std::ostream& out) { out << json << "\n"; });
}

}  // namespace

void add_rounds(CLI::App& app) {
  CLI::App* command = app.add_subcommand("rounds", "Write what was drafted and accepted in each round to a JSON file");
  const auto flags = std::make_shared<RoundsFlags>();
  flags->model.add_to(*command);
  add_path(*command, "--ids", flags->ids_file, "FILE", kIdPromptsHelp)->required();
  flags->draft.add_drafters_to(*command);
  add_numbers(*command, "--draft-tokens", flags->draft_tokens, 0, decode::kMaxDrafts, "drafts of a round; of several, one after the other, again and again")->required();
  add_number(*command, "-n,--max-tokens", flags->tokens, 1, INT32_MAX, "tokens to generate after each prompt, whatever they are")->required();
  flags->sampling.add_to(*command);
  add_path(*command, "-o,--output", flags->output, "FILE", "file to write")->required();
  command->callback([flags] { run(*flags); });
}

}  // namespace lapidary::cli
