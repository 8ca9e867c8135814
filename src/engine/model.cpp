#include "engine/model.hpp"

#include <algorithm>
#include <filesystem>

#include "checkpoint/sha256.hpp"
#include "decode/generate.hpp"

namespace lapidary::engine {
namespace {

void begin_stage(const ModelOptions& options, const char* name) {
  if (options.stage) options.stage(name);
}

// A checkpoint and a tokenizer that do not belong together are found out before the first token.
text::Tokenizer open_tokenizer(link::Program& program, const ModelOptions& options) {
  begin_stage(options, "tokenizer");
  const std::string& folder = program.checkpoint.folder();
  text::Tokenizer tokenizer = text::Tokenizer::open(folder);
  if (tokenizer.size() > program.graph->shape.vocab)
    fail(ErrorKind::shape_mismatch, folder,
         "tokenizer, expected at most " + std::to_string(program.graph->shape.vocab) + " pieces, got " +
             std::to_string(tokenizer.size()));
  count_text(program.plan, tokenizer, options.draft);
  return tokenizer;
}

std::unique_ptr<link::Executor> make_executor(const link::Program& program, const ModelOptions& options) {
  begin_stage(options, "weights");
  return program.backend->make(program);
}

}  // namespace

link::Program open_program(const ModelOptions& options) {
  begin_stage(options, "checkpoint");
  const Pairing pairing = pair(options.draft, options.folder);
  link::Options resolved = options.link;
  resolved.numeric = options.numeric.value_or(link::usual_numeric(*pairing.graph));
  if (pairing.assistant) try {
    return link::link(Checkpoint::open(options.folder), Checkpoint::open(*pairing.assistant), *pairing.graph, resolved);
  } catch (const Error& error) {
    // What merely lay beside the model must not keep it from running; what was asked for is wrong without it too.
    if (options.draft.asks_for_assistant() || error.kind == ErrorKind::usage) throw;
    if (options.notice) options.notice(error.message() + "; going on without this assistant");
  }
  return link::link(Checkpoint::open(options.folder), std::nullopt, *pairing.graph, resolved);
}

void count_text(link::MemoryPlan& plan, const text::Tokenizer& tokenizer, const DraftOptions& draft) {
  plan.text_bytes = tokenizer.memory_bytes() + text::Vocabulary::most_bytes(tokenizer) +
                    source_bytes(draft, plan.context_tokens) * static_cast<std::size_t>(plan.sessions);
  link::check_limit(plan);
}

FileHashes hashes_of(const std::string& folder) {
  FileHashes hashes;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors" || entry.path().filename() == "config.json")
      hashes[entry.path().filename().string()] = sha256_of_file(entry.path().string());
  return hashes;
}

Model::Model(const ModelOptions& options)
    : start(Clock::now()), program(open_program(options)), tokenizer(open_tokenizer(program, options)),
      chat_template(text::choose_template(program.checkpoint.folder(), program.graph->shape.ple_width > 0)),
      defaults(decode::read_generation_defaults(program.checkpoint.folder())), draft(options.draft),
      executor(make_executor(program, options)), speculation(make_speculation(draft, program)),
      taken_(static_cast<std::size_t>(program.plan.sessions)) {
  if (options.link.backend_options.warm_up) {
    begin_stage(options, "warm-up");
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

const FileHashes& Model::assistant_hashes() const {
  const std::lock_guard lock(mutex_);
  if (!hashes_) hashes_ = program.assistant ? hashes_of(assistant()) : FileHashes{};
  return *hashes_;
}

std::shared_ptr<const text::Vocabulary> Model::vocabulary() const {
  const std::lock_guard lock(mutex_);
  if (!vocabulary_) vocabulary_ = std::make_shared<const text::Vocabulary>(tokenizer);
  return vocabulary_;
}

std::shared_ptr<const text::Vocabulary> Model::call_vocabulary() const {
  const std::lock_guard lock(mutex_);
  if (!call_vocabulary_) call_vocabulary_ = text::call_vocabulary(tokenizer);
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
