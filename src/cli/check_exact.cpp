// lapidary check-exact: does this machine keep the promise that drafts never change a byte?
#include <cstdio>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/loading.hpp"
#include "decode/exactness.hpp"
#include "decode/generate.hpp"
#include "engine/conversation.hpp"

namespace lapidary::cli {
namespace {

constexpr std::int32_t kGenerated = 96;

struct CheckFlags {
  EngineFlags engine;
  int positions = 300;
};

std::vector<std::int32_t> generate(engine::Conversation& conversation, float temperature, const decode::DraftChoice& drafts,
                                   std::int64_t& rounds) {
  conversation.session.rollback(0);
  const auto prompt =
      conversation.model.tokenizer.encode("<bos><|turn>user\nCount from 1 to 20, then tell a story.<turn|>\n<|turn>model\n");
  decode::Generation generation(conversation.session, prompt,
                                {.sampling = {.temperature = temperature, .top_k = 64, .top_p = 0.95f, .seed = 1},
                                 .max_tokens = kGenerated, .speculation = &conversation.model.speculation, .drafts = drafts});
  std::vector<std::int32_t> ids;
  while (const auto token = generation.next()) ids.push_back(*token);
  rounds += generation.stats().rounds;
  return ids;
}

// Every number of drafts of every source, at temperature 0 and 1.
void check_texts(engine::Conversation& conversation) {
  const decode::Speculation& speculation = conversation.model.speculation;
  std::int64_t rounds = 0, plain_rounds = 0;
  std::string sources;
  for (std::size_t i = 0; i < speculation.source_count(); ++i) sources += (i ? ", " : "") + std::string(speculation.source_name(i));
  for (const float temperature : {0.0f, 1.0f}) {
    const auto plain = generate(conversation, temperature, {}, plain_rounds);
    for (std::size_t i = 0; i < speculation.source_count(); ++i)
      for (int k = 1; k <= decode::kMaxDrafts; ++k) {
        decode::DraftChoice drafts{.fixed_k = k};
        drafts.sources[i] = true;
        if (generate(conversation, temperature, drafts, rounds) != plain)
          fail(ErrorKind::not_exact, "check-exact",
               "text at temperature " + std::to_string(temperature) + ", expected the same with " + std::to_string(k) +
                   " drafts per round by " + std::string(speculation.source_name(i)) + " as without, got another");
      }
  }
  std::printf("texts: %d tokens with 1 to %d drafts per round by %s, %lld rounds, temperature 0 and 1: equal\n", kGenerated,
              decode::kMaxDrafts, sources.empty() ? "nobody" : sources.c_str(), static_cast<long long>(rounds));
}

void run(CheckFlags flags) {
  if (!flags.engine.model.options.context_tokens)
    flags.engine.model.options.context_tokens = flags.positions + 64 + kGenerated;
  const auto loaded = flags.engine.load();
  engine::Model& model = *loaded;
  engine::Conversation conversation(model);
  const decode::Exactness result = decode::check_exactness(conversation.session, flags.positions);
  if (result.difference)
    fail(ErrorKind::not_exact, "check-exact",
         describe(*result.difference) + ", expected the bits of the row computed alone, got others");
  std::printf("rows: %lld positions one by one and in %lld rounds of 2 to %d rows, %lld results of steps: equal\n",
              static_cast<long long>(result.positions), static_cast<long long>(result.blocks),
              model.program.plan.verify_rows, static_cast<long long>(result.values));
  check_texts(conversation);
}

}  // namespace

void add_check_exact(CLI::App& app) {
  CLI::App* command = app.add_subcommand("check-exact", "Check on this machine that drafts never change a byte");
  const auto flags = std::make_shared<CheckFlags>();
  flags->engine.add_to(*command);
  add_number(*command, "--positions", flags->positions, 8, 100000, "tokens to force", "300");
  command->callback([flags] { run(*flags); });
}

}  // namespace lapidary::cli
