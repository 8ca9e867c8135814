#include "cli/engine.hpp"

#include <chrono>

#include "cli/backend.hpp"
#include "text/grammar_vocabulary.hpp"

namespace lapidary::cli {
namespace {

// A checkpoint and a tokenizer that do not belong together are found out before the first token.
text::Tokenizer open_tokenizer(link::Program& program, const DraftFlags& draft) {
  const std::string& folder = program.checkpoint.folder();
  text::Tokenizer tokenizer = text::Tokenizer::open(folder);
  if (tokenizer.size() > program.graph->shape.vocab)
    fail(ErrorKind::shape_mismatch, folder,
         "tokenizer, expected at most " + std::to_string(program.graph->shape.vocab) + " pieces, got " +
             std::to_string(tokenizer.size()));
  count_text(program.plan, tokenizer, draft);
  return tokenizer;
}

}  // namespace

void count_text(link::MemoryPlan& plan, const text::Tokenizer& tokenizer, const DraftFlags& draft) {
  plan.text_bytes =
      tokenizer.memory_bytes() + text::Vocabulary::most_bytes(tokenizer) + source_bytes(draft, plan.context_tokens);
  link::check_limit(plan);
}

void EngineFlags::add_to(CLI::App& command) {
  model.add_option_to(command);
  draft.add_to(command);
}

Engine::Engine(const EngineFlags& flags)
    : start(Clock::now()), program(flags.model.load(flags.draft)), tokenizer(open_tokenizer(program, flags.draft)),
      chat_template(text::choose_template(program.checkpoint.folder(), program.graph->shape.ple_width > 0)),
      defaults(decode::read_generation_defaults(program.checkpoint.folder())),
      executor(make_executor(program, flags.model.backend_flags)),
      session(program, *executor), speculation(make_speculation(flags.draft, program)),
      load_seconds(std::chrono::duration<double>(Clock::now() - start).count()) {}

const FileHashes& Engine::assistant_hashes() const {
  if (!hashes_) hashes_ = program.assistant ? hashes_of(assistant()) : FileHashes{};
  return *hashes_;
}

std::int32_t required_special(const text::Tokenizer& tokenizer, const char* name) {
  const auto id = tokenizer.special(name);
  if (!id) fail(ErrorKind::missing_key, "tokenizer", std::string("special tokens, expected ") + name + " among them");
  return *id;
}

}  // namespace lapidary::cli
