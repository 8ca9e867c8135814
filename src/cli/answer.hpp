// One answer at the command line: the flags that shape it, Ctrl-C, what came of it for people.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "cli/loading.hpp"
#include "cli/sampling.hpp"
#include "engine/answer.hpp"

namespace lapidary::cli {

struct AnswerFlags {
  SamplingFlags sampling;
  int max_tokens = 0;  // 0 = until the context is full
  std::vector<std::string> stops;
  std::string schema;  // or its file
  bool json_mode = false;
  bool think = false, folds_thoughts = false;
  int logprobs = -1;   // alternatives per token; -1 = none

  void add_to(CLI::App& command);
  engine::AnswerOptions options() const;  // reads the schema
};

// Ctrl-C while an answer is generated: the first one cancels it, a second one ends the program.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  std::atomic<bool>& cancelled() { return cancelled_; }

 private:
  std::atomic<bool> cancelled_ = false;
};

// To stderr, where a limit came before the end of the answer.
struct CutShort {
  engine::Ending ending = engine::Ending::none;
  std::size_t tokens = 0;           // of the answer
  std::int32_t context_tokens = 0;
  bool unfinished = false;
  std::string advice{};             // what could be done about a full context
};
void tell_cut_short(const CutShort& cut);

// Load time, time to first token, tok/s, bytes per token, GB/s: to stderr.
void print_stats(const engine::Conversation& conversation, const engine::Answer::Result& answer);

}  // namespace lapidary::cli
