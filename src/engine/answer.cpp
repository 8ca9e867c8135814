#include "engine/answer.hpp"

#include <array>
#include <cassert>
#include <numeric>
#include <string>

#include "checkpoint/error.hpp"
#include "text/grammar.hpp"

namespace lapidary::engine {
namespace {

decode::Rules rules_of(const Model& model, const Prompt& prompt, const AnswerOptions& options) {
  const text::Tokenizer& tokenizer = model.tokenizer;
  const auto markers = [&](const char* open, const char* close) {
    return decode::Markers{tokenizer.special(open).value_or(-1), tokenizer.special(close).value_or(-1)};
  };
  decode::Rules rules{.thought = markers("<|channel>", "<channel|>"), .call = markers("<|tool_call>", "<tool_call|>"),
                      .calls = options.calls, .single_call = options.single_call, .may_think = prompt.may_think,
                      .in_thought = prompt.reading == Reading::answer_in_thought, .thought_ids = options.thinking_budget_tokens,
                      .thought_header = tokenizer.encode("thought\n"), .thought_closing = tokenizer.encode("\n<channel|>")};
  const Grammars grammars = options.grammars ? *options.grammars : compile(model, options);
  rules.answer_grammar = grammars.answer;
  rules.call_grammar = grammars.call;
  return rules;
}

std::optional<decode::Constraint> constraint_of(const Model& model, const Prompt& prompt, const AnswerOptions& options) {
  if (options.thinking_budget_tokens && *options.thinking_budget_tokens < 0)
    fail(ErrorKind::usage, "thinking budget", "expected at least 0 tokens, got " + std::to_string(*options.thinking_budget_tokens));
  const bool is_limited = options.schema || options.json || options.strict_tools || options.calls != decode::Calls::automatic ||
                          options.single_call || options.thinking_budget_tokens;
  if (!is_limited) return std::nullopt;
  return decode::Constraint(rules_of(model, prompt, options));
}

// After these the text is of another nature: a thought has ended, a call begins.
std::vector<std::int32_t> landmarks_of(const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (const char* name : {"<channel|>", "<|tool_call>", "<tool_call|>"})
    if (const auto id = tokenizer.special(name)) ids.push_back(*id);
  return ids;
}

Ending ending_of(decode::StopReason reason) {
  switch (reason) {
    case decode::StopReason::none: return Ending::none;
    case decode::StopReason::stop_token:
    case decode::StopReason::complete: return Ending::stop;
    case decode::StopReason::max_tokens: return Ending::max_tokens;
    case decode::StopReason::context: return Ending::context;
    case decode::StopReason::cancelled: return Ending::cancelled;
  }
  return Ending::none;
}

text::Begin begin_of(Reading reading) {
  switch (reading) {
    case Reading::plain:
    case Reading::answer: return text::Begin::at_start;
    case Reading::answer_in_thought: return text::Begin::in_thought;
    case Reading::answer_in_text: return text::Begin::in_text;
  }
  return text::Begin::at_start;
}

bool is_cut(Ending ending) { return ending == Ending::max_tokens || ending == Ending::context || ending == Ending::cancelled; }

}  // namespace

Grammars compile(const Model& model, const AnswerOptions& options) {
  Grammars grammars;
  if (options.schema) grammars.answer = text::Grammar::schema(model.vocabulary(), *options.schema);
  else if (options.json) grammars.answer = text::Grammar::json(model.vocabulary());
  if (options.strict_tools) {
    for (const char* marker : {"<|tool_call>", "<tool_call|>"}) required_special(model.tokenizer, marker);
    grammars.call = text::Grammar::calls(model.call_vocabulary(), *options.strict_tools);
  } else if (options.calls == decode::Calls::required) {
    fail(ErrorKind::usage, "calls", "expected the tools that required ones must fit, got none");
  }
  return grammars;
}

std::string_view name_of(Ending ending) {
  switch (ending) {
    case Ending::none: return "none";
    case Ending::stop: return "stop";
    case Ending::stop_text: return "stop_text";
    case Ending::tool_call: return "tool_call";
    case Ending::max_tokens: return "max_tokens";
    case Ending::context: return "context";
    case Ending::cancelled: return "cancelled";
  }
  return "";
}

Reader::Reader(const text::Tokenizer& tokenizer, Reading reading, const std::vector<std::string>& stops)
    : stops_(stops), plain_(tokenizer), parser_(tokenizer, begin_of(reading)), is_plain_(reading == Reading::plain) {}

Event Reader::push(std::int32_t id) {
  const int number = pushed_++;
  text::Event parsed;
  if (is_plain_) {
    parsed.content = plain_.push(id, number, stopping_);
  } else {
    const bool was_in_thought = parser_.in_thought();
    parsed = parser_.push(id);
    // The marker that closes a thought is the thought's, one that opens a call in it is not.
    if (parser_.in_thought() || (was_in_thought && !parser_.in_call())) ++reasoning_tokens_;
  }
  std::string content = stops_.push(parsed.content);
  return deliver(std::move(parsed), std::move(content));
}

Event Reader::finish(bool drops_call) {
  text::Event parsed;
  if (is_plain_) parsed.content = plain_.finish(stopping_);
  else parsed = parser_.finish(drops_call);
  std::string content = stops_.push(parsed.content);
  content += stops_.finish();
  return deliver(std::move(parsed), std::move(content));
}

// Stages only drop what stands before or behind all that they pass on, so bytes are told by their number.
Event Reader::deliver(text::Event parsed, std::string content) {
  stopping_.add(parsed.content_origins);
  Event event{std::move(parsed.reasoning), std::move(content), std::move(parsed.calls), {}};
  for (const text::Origin& origin : stopping_.take(event.content.size())) {
    if (origin.number <= last_listed_) continue;
    last_listed_ = origin.number;
    event.content_tokens.push_back(origin.number);
  }
  return event;
}

Answer::Answer(Conversation& conversation, Prompt prompt, const AnswerOptions& options)
    : conversation_(conversation), prompt_(std::move(prompt)), soft_(prompt_.blocks.size()), soft_rows_(prompt_.blocks.size()),
      sampling_(options.sampling, conversation.model.defaults, conversation.session.vocab()),
      landmarks_(landmarks_of(conversation.model.tokenizer)), logprobs_(options.logprobs), whole_calls_only_(options.whole_calls_only),
      cancel_(options.cancel ? *options.cancel : own_cancel_),
      options_{.sampling = sampling_.sampling(), .soft = {prompt_.blocks, soft_rows_}, .stop_ids = conversation.model.defaults.eos_tokens,
               .constraint = constraint_of(conversation.model, prompt_, options), .speculation = &conversation.model.speculation,
               .drafts = conversation.drafts, .prediction = options.prediction, .landmarks = landmarks_, .cancel = &cancel_, .wants_logits = options.logprobs >= 0 || options.wants_rows},
      reader_(conversation.model.tokenizer, prompt_.reading, options.stops) {
  if (options.max_tokens) options_.max_tokens = options.max_tokens;
  result_.seed = sampling_.settings.seed;
  result_.prompt_tokens = static_cast<int>(prompt_.ids.size());
}

std::optional<Event> Answer::turn(int most_rows) {
  if (result_.ending != Ending::none) return std::nullopt;
  begin();
  if (generation_->in_prompt()) return read_prompt(most_rows);
  if (reader_.stopped()) return end(Ending::stop_text);
  const auto token = generation_->next();
  if (!token) return end(ending_of(generation_->reason()));
  result_.ids.push_back(*token);
  if (logprobs_ >= 0) result_.logprobs.push_back(decode::logprobs(generation_->logits(), *token, logprobs_));
  return deliver(reader_.push(*token));
}

decode::PlayedRounds Answer::play_together(std::span<Answer* const> answers) {
  std::array<decode::Generation*, graph::kMaxVerifyRows> playing;
  std::size_t count = 0;
  for (Answer* answer : answers) {
    if (!answer->wants_round()) continue;
    assert(count < playing.size());
    playing[count++] = &*answer->generation_;
  }
  return decode::Generation::play_together(std::span(playing).first(count));
}

void Answer::begin() {
  if (generation_) return;
  start_ = Clock::now();
  result_.reused_tokens = conversation_.session.keep_common_prefix(prompt_.ids, prompt_.blocks);
  const auto rest = std::span(prompt_.ids).subspan(static_cast<std::size_t>(result_.reused_tokens));
  generation_.emplace(conversation_.session, rest, std::move(options_));
}

Event Answer::read_prompt(int most_rows) {
  if (cancel_.load(std::memory_order_relaxed)) return end(Ending::cancelled);
  if (perceive_next(most_rows)) return {};
  generation_->turn(most_rows);
  for (std::size_t b = 0; b < soft_.size(); ++b)
    if (prompt_.blocks[b].end <= conversation_.session.length()) soft_[b] = {};
  result_.first_token_seconds = seconds_since(start_);
  return {};
}

// The first block of the next chunk whose soft tokens are not there yet. False: all are.
bool Answer::perceive_next(int most_rows) {
  const decode::Session& session = conversation_.session;
  for (std::size_t b = 0; b < soft_.size(); ++b) {
    const decode::SoftBlock& block = prompt_.blocks[b];
    if (block.end <= session.length() || block.begin >= session.turn_end(most_rows) || !soft_[b].empty()) continue;
    soft_[b] = perceive(*conversation_.model.program.graph, *conversation_.model.executor, *prompt_.percepts[b]);
    soft_rows_[b] = soft_[b];
    return true;
  }
  return false;
}

Event Answer::end(Ending ending) {
  generation_->stop();
  result_.drafts = generation_->stats();
  const auto& drafted = result_.drafts.drafted;
  result_.accepted_drafts = generation_->accepted_drafts();
  result_.rejected_drafts = std::accumulate(drafted.begin(), drafted.end(), std::int64_t{0}) - result_.accepted_drafts;
  if (ending == Ending::max_tokens || ending == Ending::context)
    result_.unfinished = !generation_->complete() || reader_.in_call();
  Event last = deliver(reader_.finish(whole_calls_only_ && is_cut(ending)));
  result_.decode_seconds = seconds_since(start_) - result_.first_token_seconds;
  result_.ending = ending == Ending::stop && !result_.calls.empty() ? Ending::tool_call : ending;
  if (reader_.stopped()) result_.ending = Ending::stop_text;
  result_.stop_text = reader_.stop_text();
  return last;
}

Event Answer::deliver(Event event) {
  result_.reasoning_tokens = reader_.reasoning_tokens();
  result_.reasoning += event.reasoning;
  result_.content += event.content;
  result_.calls.insert(result_.calls.end(), event.calls.begin(), event.calls.end());
  return event;
}

}  // namespace lapidary::engine
