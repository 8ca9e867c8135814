#include "cli/answer.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "engine/stats.hpp"

namespace lapidary::cli {
namespace {

// What a signal handler can reach: how to cancel the answer, until it has been, and whether a handler is at it.
std::atomic<std::atomic<bool>*> interruptible = nullptr;
std::atomic<bool> interrupting = false;
static_assert(std::atomic<std::atomic<bool>*>::is_always_lock_free);

void interrupt(int) {
  interrupting = true;
  std::atomic<bool>* cancelled = interruptible.exchange(nullptr);
  if (!cancelled) std::_Exit(kCancelled);
  *cancelled = true;
  interrupting = false;
}

}  // namespace

void AnswerFlags::add_to(CLI::App& command) {
  sampling.add_to(command);
  add_number(command, "-n,--max-tokens", max_tokens, 1, INT32_MAX, "generate at most so many tokens", "until the context is full");
  command.add_option("--stop", stops, "end before this text; may be repeated")->allow_extra_args(false)->take_all()
      ->check([](const std::string& text) { return text.empty() ? std::string("a stop text must not be empty") : std::string(); });
  auto* file = add_path(command, "--json-schema", schema, "FILE", "JSON schema that the answer must fit: a file, or itself");
  command.add_flag("--json-mode", json_mode, "the answer must be JSON")->excludes(file);
  command.add_flag("--think", think, "let the model think before it answers");
  add_choice(command, "--thoughts", {"show", "fold"}, [this](const std::string& name) { folds_thoughts = name == "fold"; },
             "fold: one line in place of a thought says how long it was (default: show)");
}

engine::AnswerOptions AnswerFlags::options() const {
  engine::AnswerOptions options{.sampling = sampling.options(), .max_tokens = max_tokens, .stops = stops, .json = json_mode,
                                .logprobs = logprobs};
  if (!schema.empty()) options.schema = read_schema_input(schema, "--json-schema");
  return options;
}

InterruptGuard::InterruptGuard() {
  interruptible = &cancelled_;
  std::signal(SIGINT, interrupt);
}

// A handler may run on another thread: what it writes to stays until it is done.
InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  interruptible = nullptr;
  while (interrupting) std::this_thread::yield();
}

void tell_cut_short(const CutShort& cut) {
  const char* rest = cut.unfinished ? " and is unfinished" : "";
  if (cut.ending == engine::Ending::max_tokens)
    std::fprintf(stderr, "[--max-tokens] the answer was cut short after %zu token%s%s\n", cut.tokens, cut.tokens == 1 ? "" : "s", rest);
  if (cut.ending == engine::Ending::context)
    std::fprintf(stderr, "[--context] the answer was cut short%s: its %d tokens are used up%s\n", rest, cut.context_tokens, cut.advice.c_str());
}

void print_stats(const engine::Conversation& conversation, const engine::Answer::Result& answer) {
  const engine::Model& model = conversation.model;
  const engine::Rates rates = engine::rates_of(model, answer);
  std::fprintf(stderr,
               "load %.3f s, first token %.3f s\nprompt %d tokens (%d reused), %.1f tok/s\n"
               "decode %zu tokens, %.1f tok/s, %lld bytes per token, %.2f GB/s\nstop: %s, seed %llu\n",
               model.load_seconds, answer.first_token_seconds, answer.prompt_tokens, answer.reused_tokens,
               rates.prompt_tok_s, answer.ids.size(), rates.decode_tok_s, static_cast<long long>(rates.token_bytes),
               rates.gb_s, std::string(name_of(answer.ending)).c_str(), static_cast<unsigned long long>(answer.seed));
  print_draft_stats(model.speculation, answer.drafts);
}

}  // namespace lapidary::cli
