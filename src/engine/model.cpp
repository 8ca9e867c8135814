#include "engine/model.hpp"

#include <algorithm>

#include "decode/generate.hpp"

namespace lapidary::engine {
namespace {

// A checkpoint and a tokenizer that do not belong together are found out before the first token.
Parts checked(Parts parts, const DraftOptions& draft) {
  const std::int32_t vocab = parts.program.graph->shape.vocab, pieces = parts.tokenizer.size();
  if (pieces > vocab)
    fail(ErrorKind::shape_mismatch, parts.program.target.folder,
         "tokenizer, expected at most " + std::to_string(vocab) + " pieces, got " + std::to_string(pieces));
  count_text(parts.program.plan, parts.tokenizer, draft);
  return parts;
}

std::unique_ptr<link::Executor> make_executor(const link::Program& program, const ModelOptions& options) {
  options.begin_stage("weights");
  return program.backend->make(program);
}

}  // namespace

void count_text(link::MemoryPlan& plan, const text::Tokenizer& tokenizer, const DraftOptions& draft) {
  plan.text_bytes = tokenizer.memory_bytes() + vocabulary_bytes(tokenizer) +
                    source_bytes(draft, plan.context_tokens) * static_cast<std::size_t>(plan.sessions);
  link::check_limit(plan);
}

Model::Model(const ModelOptions& options) : Model{Clock::now(), checked(open_parts(options), options.draft), options} {}

Model::Model(Clock::time_point began, Parts parts, const ModelOptions& options)
    : start(began), program(std::move(parts.program)), tokenizer(std::move(parts.tokenizer)), chat_template(parts.chat_template),
      defaults(std::move(parts.defaults)), image_tokens(parts.image_tokens), draft(options.draft), executor(make_executor(program, options)),
      speculation(make_speculation(draft, program)), make_vocabulary_(std::move(parts.make_vocabulary)),
      make_call_vocabulary_(std::move(parts.make_call_vocabulary)), taken_(static_cast<std::size_t>(program.plan.sessions)) {
  if (options.link.backend_options.warm_up) {
    options.begin_stage("warm-up");
    warm_up();
  }
  load_seconds = seconds_since(start);
}

// A chunk of a prompt and some rounds: what is prepared at first use is there then. Nothing is learnt of drafts: it is no real text.
void Model::warm_up() {
  constexpr int kRounds = 16;
  const Slot slot(*this);
  decode::Session session(program, *executor, slot.number());
  const std::vector<std::int32_t> prompt(static_cast<std::size_t>(std::min(program.plan.chunk_rows, program.plan.context_tokens / 2)));
  decode::Generation generation(session, prompt, {.max_tokens = kRounds});
  while (generation.next()) {}
}

std::vector<Model::Drafter> Model::drafters() const {
  std::vector<Drafter> all;
  if (program.assistant) all.push_back({"assistant", "mtp", &*program.assistant});
  if (program.dflash) all.push_back({"dflash", "dflash", &*program.dflash});
  return all;
}

const link::FileHashes& Model::hashes_of(const Drafter& drafter) const {
  const std::lock_guard lock(mutex_);
  const auto [found, fresh] = hashes_.try_emplace(drafter.name);
  if (fresh) found->second = drafter.origin->hashes();
  return found->second;
}

std::shared_ptr<const text::Vocabulary> Model::vocabulary() const {
  const std::lock_guard lock(mutex_);
  if (!vocabulary_) vocabulary_ = make_vocabulary_(tokenizer);
  return vocabulary_;
}

std::shared_ptr<const text::Vocabulary> Model::call_vocabulary() const {
  const std::lock_guard lock(mutex_);
  if (!call_vocabulary_) call_vocabulary_ = make_call_vocabulary_(tokenizer);
  return call_vocabulary_;
}

int Model::take_slot() {
  const std::lock_guard lock(mutex_);
  const auto free = std::ranges::find(taken_, false);
  if (free == taken_.end())
    fail(ErrorKind::usage, "sessions", "expected at most " + std::to_string(taken_.size()) + " at a time, got another");
  *free = true;
  return static_cast<int>(free - taken_.begin());
}

void Model::give_back_slot(int slot) {
  const std::lock_guard lock(mutex_);
  taken_[static_cast<std::size_t>(slot)] = false;
}

std::int32_t required_special(const text::Tokenizer& tokenizer, const char* name) {
  const auto id = tokenizer.special(name);
  if (!id) fail(ErrorKind::missing_key, "tokenizer", std::string("special tokens, expected ") + name + " among them");
  return *id;
}

}  // namespace lapidary::engine
