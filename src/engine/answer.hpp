// One answer of the model, turn by turn, and what came of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/constraint.hpp"
#include "decode/generate.hpp"
#include "decode/logprobs.hpp"
#include "engine/conversation.hpp"
#include "engine/prompt.hpp"
#include "engine/sampling.hpp"
#include "text/origins.hpp"
#include "text/output_parser.hpp"
#include "text/stop_matcher.hpp"
#include "text/value.hpp"

namespace lapidary::engine {

// What became certain with one turn.
struct Event {
  std::string reasoning{}, content{};
  std::vector<text::ToolCall> calls{};  // completed
  // Which of Result::ids brought `content`, by index. All events together list each id that has some text in the whole content once,
  // in order, with the first of its text.
  std::vector<int> content_tokens{};
};

// What texts and calls must fit, compiled; null = anything.
struct Grammars {
  std::shared_ptr<const text::Grammar> answer{}, call{};
};

struct AnswerOptions {
  using Calls = decode::Calls;

  SamplingOptions sampling{};
  std::int32_t max_tokens = 0;              // 0 = until the context is full
  std::vector<std::string> stops{};         // texts to end before
  bool json = false;                        // the answer must be JSON
  std::optional<text::Value> schema{};      // and fit this one
  std::optional<text::Value> strict_tools{};  // calls must fit these; with a schema, too, the answer is a call or fits the schema
  Calls calls = Calls::automatic;           // required: of strict_tools
  bool single_call = false;                 // the answer ends with its first call
  std::optional<int> thinking_budget_tokens{};  // a thought is closed by force after so many ids behind its header
  std::optional<Grammars> grammars{};       // of json, schema and strict_tools, where they have been compiled before
  bool whole_calls_only = false;            // a call that a limit or a cancel cuts off is dropped, not taken as far as it goes
  std::vector<std::int32_t> prediction{};   // tokens that drafts may be found in; no byte depends on them
  int logprobs = -1;                        // alternatives per token; -1 = none
  bool wants_rows = false;                  // Answer::logits() and hidden() are going to be read
  std::atomic<bool>* cancel = nullptr;      // ends the answer once it is true; null = the answer has its own
};

// May take a while. Fails where the options ask for what no grammar can hold to.
Grammars compile(const Model& model, const AnswerOptions& options);

enum class Ending : std::uint8_t { none, stop, stop_text, tool_call, max_tokens, context, cancelled };
std::string_view name_of(Ending ending);

// Ids in, events out: plain text, or the parts of an answer, cut at a stop string.
class Reader {
 public:
  Reader(const text::Tokenizer& tokenizer, Reading reading, const std::vector<std::string>& stops);
  Event push(std::int32_t id);
  Event finish(bool drops_call);
  bool stopped() const { return stops_.matched(); }
  const std::string& stop_text() const { return stops_.match(); }
  bool in_call() const { return !is_plain_ && parser_.in_call(); }
  int reasoning_tokens() const { return reasoning_tokens_; }  // markers included

 private:
  Event deliver(text::Event parsed, std::string content);

  text::StopMatcher stops_;
  text::Detokenizer plain_;
  text::OutputParser parser_;
  text::Origins stopping_;  // of what the stop matcher holds back
  bool is_plain_;
  int pushed_ = 0, last_listed_ = -1;
  int reasoning_tokens_ = 0;
};

class Answer {
 public:
  // `conversation`, which may already hold a beginning of the prompt, must outlive it. Nothing is computed yet.
  Answer(Conversation& conversation, Prompt prompt, const AnswerOptions& options);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // Keeps what the conversation has of the prompt, so that read_tokens() counts from there; else the first turn does so.
  void begin();
  // A chunk of the prompt, of at most `most_rows` tokens, a picture or a sound of the next one, a token, or the end: what became certain
  // with it, which may be nothing. No event when the answer has ended.
  std::optional<Event> turn(int most_rows = INT32_MAX);
  // A round for all that want one, in one pass; see decode::Generation. Their turns deliver its tokens.
  static decode::PlayedRounds play_together(std::span<Answer* const> answers);
  // Ends the answer with what there is, soon. From any thread, also from a signal handler.
  void cancel() { cancel_.store(true, std::memory_order_relaxed); }

  // The next turn begins a round: the tokens of the last one have all been delivered.
  bool wants_round() const { return generation_ && generation_->wants_round() && !reader_.stopped(); }
  bool in_prompt() const { return !generation_ || generation_->in_prompt(); }
  int read_tokens() const { return conversation_.session.length(); }  // of the prompt, those kept from before included
  // Of the row that the last token was chosen from; until the next one.
  std::span<const float> logits() const { return generation_->logits(); }
  std::span<const float> hidden() const { return generation_->hidden(); }

  struct Result {
    std::string reasoning, content;
    std::vector<text::ToolCall> calls;
    std::vector<std::int32_t> ids;
    std::vector<decode::Logprobs> logprobs;
    Ending ending = Ending::none;
    bool unfinished = false;  // a limit came before the end of a call, or of what a schema asks for
    std::string stop_text;    // the one that ended it
    std::uint64_t seed = 0;

    int prompt_tokens = 0, reused_tokens = 0;
    int reasoning_tokens = 0;  // of ids: thoughts with their markers
    double first_token_seconds = 0, decode_seconds = 0;
    decode::SpeculationStats drafts{};  // at the end
    std::int64_t accepted_drafts = 0, rejected_drafts = 0;  // at the end: those among ids, and the others that were verified
  };
  const Result& result() const { return result_; }  // so far

 private:
  Event read_prompt(int most_rows);
  bool perceive_next(int most_rows);
  Event end(Ending ending);
  Event deliver(Event event);

  Conversation& conversation_;
  const Prompt prompt_;
  std::vector<std::vector<float>> soft_;           // by block of the prompt: its soft tokens, until it has been read
  std::vector<std::span<const float>> soft_rows_;  // the same
  const ResolvedSampling sampling_;
  const std::vector<std::int32_t> landmarks_;
  const int logprobs_;
  const bool whole_calls_only_;
  std::atomic<bool> own_cancel_ = false;
  std::atomic<bool>& cancel_;
  decode::GenerateOptions options_;  // until the generation has them
  Reader reader_;
  Result result_;
  Clock::time_point start_{};
  std::optional<decode::Generation> generation_;  // from begin() on
};
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may write it

}  // namespace lapidary::engine
