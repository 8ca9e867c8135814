// One answer of the model: the flags that shape it, the loop that produces it, what came of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/engine.hpp"
#include "cli/sampling.hpp"
#include "decode/logprobs.hpp"
#include "decode/speculation.hpp"
#include "text/output_parser.hpp"
#include "text/value.hpp"

namespace lapidary::cli {

struct AnswerFlags {
  SamplingFlags sampling;
  int max_tokens = 0;                // 0 = until the context is full
  std::vector<std::string> stops;
  std::string schema_file;
  bool json_mode = false;
  std::optional<text::Value> strict_tools;  // calls must fit these
  bool think = false;
  int logprobs = -1;                 // alternatives per token; -1 = none

  void add_to(CLI::App& command);
};

struct Answer {
  std::string reasoning, content;
  std::vector<text::ToolCall> calls;
  std::vector<std::int32_t> ids;
  std::vector<decode::Logprobs> logprobs;
  std::string stop_reason;           // stop, stop_text, tool_call, max_tokens, context, cancelled
  std::uint64_t seed = 0;

  int prompt_tokens = 0, reused_tokens = 0;
  double first_token_seconds = 0, decode_seconds = 0;
  decode::SpeculationStats drafts;
};

// How the output is read: as an answer with thoughts and calls, or as plain text.
enum class Reading { plain, answer, answer_in_thought };

// Generates after `prompt`, of which the session may already hold a beginning. `sink` sees every event as it comes.
// Returns early, with what was generated, after a Ctrl-C.
Answer answer(Engine& engine, std::span<const std::int32_t> prompt, Reading reading, const AnswerFlags& flags,
              const std::function<void(const text::Event&)>& sink);

// Ctrl-C while an answer is generated: the first one asks it to stop, a second one ends the program.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

// Load time, time to first token, tok/s, bytes per token, GB/s.
text::Value stats_of(const Engine& engine, const Answer& answer);
void print_stats(const Engine& engine, const Answer& answer);  // to stderr, for people

}  // namespace lapidary::cli
