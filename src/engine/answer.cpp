#include "engine/answer.hpp"

#include "text/grammar.hpp"

namespace lapidary::engine {
namespace {

std::optional<decode::Constraint> constraint_of(const Model& model, const Prompt& prompt, const AnswerOptions& options) {
  const auto markers = [&](const char* open, const char* close) {
    return decode::Markers{required_special(model.tokenizer, open), required_special(model.tokenizer, close)};
  };
  if (options.strict_tools) {
    return decode::Constraint::calls(text::Grammar::calls(model.call_vocabulary(), *options.strict_tools),
                                     markers("<|tool_call>", "<tool_call|>"));
  }
  if (!options.schema && !options.json) return std::nullopt;
  const auto grammar = options.schema ? text::Grammar::schema(model.vocabulary(), *options.schema)
                                      : text::Grammar::json(model.vocabulary());
  if (!prompt.may_think) return decode::Constraint::answer(grammar);
  return decode::Constraint::answer(grammar, markers("<|channel>", "<channel|>"));
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
    case decode::StopReason::stop_token: return Ending::stop;
    case decode::StopReason::max_tokens: return Ending::max_tokens;
    case decode::StopReason::context: return Ending::context;
    case decode::StopReason::cancelled: return Ending::cancelled;
  }
  return Ending::none;
}

}  // namespace

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
    : stops_(stops), plain_(tokenizer), parser_(tokenizer, reading == Reading::answer_in_thought),
      is_plain_(reading == Reading::plain) {}

Event Reader::push(std::int32_t id) {
  Event event;
  if (is_plain_) event.content = plain_.push(id);
  else event = parser_.push(id);
  event.content = stops_.push(event.content);
  return event;
}

Event Reader::finish() {
  Event event;
  if (is_plain_) event.content = plain_.finish();
  else event = parser_.finish();
  event.content = stops_.push(event.content) + stops_.finish();
  return event;
}

Answer::Answer(Conversation& conversation, Prompt prompt, const AnswerOptions& options)
    : conversation_(conversation), prompt_(std::move(prompt)),
      sampling_(options.sampling, conversation.model.defaults, conversation.session.vocab()),
      landmarks_(landmarks_of(conversation.model.tokenizer)), logprobs_(options.logprobs),
      cancel_(options.cancel ? *options.cancel : own_cancel_),
      options_{.sampling = sampling_.sampling(), .stop_ids = conversation.model.defaults.eos_tokens,
               .constraint = constraint_of(conversation.model, prompt_, options), .speculation = &conversation.model.speculation,
               .drafts = conversation.drafts, .landmarks = landmarks_, .cancel = &cancel_, .wants_logits = options.logprobs >= 0 || options.wants_rows},
      reader_(conversation.model.tokenizer, prompt_.reading, options.stops) {
  if (options.max_tokens) options_.max_tokens = options.max_tokens;
  result_.seed = sampling_.settings.seed;
  result_.prompt_tokens = static_cast<int>(prompt_.ids.size());
}

std::optional<Event> Answer::turn() {
  if (result_.ending != Ending::none) return std::nullopt;
  if (!generation_) begin();
  if (generation_->in_prompt()) return read_prompt();
  if (reader_.stopped()) return end(Ending::stop_text);
  const auto token = generation_->next();
  if (!token) return end(ending_of(generation_->reason()));
  result_.ids.push_back(*token);
  if (logprobs_ >= 0) result_.logprobs.push_back(decode::logprobs(generation_->logits(), *token, logprobs_));
  return deliver(reader_.push(*token));
}

void Answer::begin() {
  start_ = Clock::now();
  result_.reused_tokens = conversation_.session.keep_common_prefix(prompt_.ids);
  const auto rest = std::span(prompt_.ids).subspan(static_cast<std::size_t>(result_.reused_tokens));
  generation_.emplace(conversation_.session, rest, std::move(options_));
}

Event Answer::read_prompt() {
  if (cancel_.load(std::memory_order_relaxed)) return end(Ending::cancelled);
  generation_->turn();
  result_.first_token_seconds = seconds_since(start_);
  return {};
}

Event Answer::end(Ending ending) {
  generation_->stop();
  result_.drafts = generation_->stats();
  if (ending == Ending::max_tokens || ending == Ending::context)
    result_.unfinished = !generation_->complete() || reader_.in_call();
  Event last = deliver(reader_.finish());
  result_.decode_seconds = seconds_since(start_) - result_.first_token_seconds;
  result_.ending = ending == Ending::stop && !result_.calls.empty() ? Ending::tool_call : ending;
  if (reader_.stopped()) result_.ending = Ending::stop_text;
  return last;
}

Event Answer::deliver(Event event) {
  result_.reasoning += event.reasoning;
  result_.content += event.content;
  result_.calls.insert(result_.calls.end(), event.calls.begin(), event.calls.end());
  return event;
}

}  // namespace lapidary::engine
