// POST /v1/completions: texts or ids that are gone on with, read and written as plain text.
#include <algorithm>

#include "serve/events.hpp"
#include "serve/openai_fields.hpp"
#include "text/utf8.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr int kDefaultTokens = 16, kMaxTop = 20;
constexpr std::size_t kMaxPrompts = 16;

// The old shape: lists side by side.
class OldLogprobs {
 public:
  void add(const LogprobEntry& entry) {
    tokens_.push_back(valid_text(entry.chosen.bytes));
    logprobs_.push_back(logprob_number(entry.chosen.logprob));
    tops_.push_back(top_of(entry));
    offsets_.push_back(characters_);
    pending_ += entry.chosen.bytes;
    while (!pending_.empty()) {
      const text::Utf8Step step = text::utf8_step(pending_);
      if (step.state == text::Utf8::cut) break;
      pending_.erase(0, step.bytes);
      ++characters_;
    }
  }

  Value take() {
    return Value::Object{{"tokens", std::exchange(tokens_, {})},
                         {"token_logprobs", std::exchange(logprobs_, {})},
                         {"top_logprobs", std::exchange(tops_, {})},
                         {"text_offset", std::exchange(offsets_, {})}};
  }

 private:
  // Of tokens that are shown alike the first stays: the chosen one, or the likeliest.
  static Value top_of(const LogprobEntry& entry) {
    Value::Object top;
    const auto add = [&](const TokenLogprob& token) {
      const std::string name = valid_text(token.bytes);
      if (std::ranges::find(top, name, &std::pair<std::string, Value>::first) == top.end())
        top.emplace_back(name, logprob_number(token.logprob));
    };
    add(entry.chosen);
    for (const TokenLogprob& token : entry.top) add(token);
    return top;
  }

  Value::Array tokens_, logprobs_, tops_, offsets_;
  std::int64_t characters_ = 0;  // before the next token
  std::string pending_;          // bytes of a character that has begun
};

class CompletionWriter final : public OpenAiWriter {
 public:
  CompletionWriter(const Facts& facts, const AnswerShape& shape)
      : OpenAiWriter(facts, shape, "cmpl-", "text_completion", "text_completion"), choices_(static_cast<std::size_t>(shape.choices)) {}

  std::string add(const Delta& delta) override {
    Choice& state = choices_[static_cast<std::size_t>(delta.index)];
    for (const LogprobEntry& entry : delta.logprobs) state.logprobs.add(entry);
    if (!shape_.streams) {
      state.text += delta.content;
      return "";
    }
    if (delta.content.empty() && delta.logprobs.empty()) return "";
    return chunk(choice(delta.index, delta.content, shape_.logprobs ? state.logprobs.take() : Value(), {}));
  }

 protected:
  Value last_choice(int index, std::string_view finish_reason) const override { return choice(index, "", {}, finish_reason); }

  Value whole_choice(int index, std::string_view finish_reason) const override {
    Choice state = choices_[static_cast<std::size_t>(index)];
    return choice(index, state.text, shape_.logprobs ? state.logprobs.take() : Value(), finish_reason);
  }

 private:
  struct Choice {
    std::string text;
    OldLogprobs logprobs;
  };

  static Value choice(int index, const std::string& text, Value logprobs, Value finish_reason) {
    return Value::Object{{"index", index}, {"text", text}, {"logprobs", std::move(logprobs)}, {"finish_reason", std::move(finish_reason)}};
  }

  std::vector<Choice> choices_;
};

PlainPrompt read_prompt(const Value& given, const std::string& path, const Facts& facts, bool parse_special) {
  PlainPrompt prompt;
  prompt.parse_special = parse_special;
  if (!given.truthy() || (!given.string() && !given.array())) refuse_value(path, "a text or token ids, not empty", &given);
  if (given.string()) prompt.content = *given.string();
  else prompt.content = read_ids(*given.array(), path, facts.vocab);
  return prompt;
}

std::vector<PlainPrompt> read_prompts(Fields& body, const Facts& facts) {
  const bool parse_special = body.boolean("parse_special").value_or(false);
  const Value& given = body.need("prompt", "a text, token ids, or a list of these");
  const std::string path = body.path_of("prompt");
  const Value::Array* list = given.array();
  if (!list || list->empty() || list->front().integer()) return {read_prompt(given, path, facts, parse_special)};
  if (list->size() > kMaxPrompts) refuse_value(path, "at most 16 prompts", &given);
  std::vector<PlainPrompt> prompts;
  for (const Value& one : *list) {
    const std::string one_path = path_at(path, prompts.size());
    prompts.push_back(read_prompt(one, one_path, facts, parse_special));
    if (prompts.back().content.index() != prompts.front().content.index())
      refuse_value(one_path, list->front().string() ? "a text like the first" : "token ids like the first", &one);
  }
  return prompts;
}

}  // namespace

Request read_completion(const Value& given, const Facts& facts) {
  Fields body(given);
  Request request;
  Job& job = request.job;
  AnswerShape shape;
  std::vector<PlainPrompt> prompts = read_prompts(body, facts);
  read_common(body, facts, job);
  read_stream(body, shape);
  job.options.max_tokens = read_max_tokens(body, "max_tokens").value_or(kDefaultTokens);
  job.options.logprobs = static_cast<int>(body.integer("logprobs", 0, kMaxTop).value_or(-1));
  body.without_effect("echo", {false});
  body.without_effect("best_of", {1});
  body.refused("suffix", "text is gone on with, not filled in");
  for (const char* name : {"messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "chat_template_kwargs",
                           "continue_final_message", "thinking_budget_tokens", "max_completion_tokens", "top_logprobs"})
    body.refused(name, "it belongs to /v1/chat/completions");
  body.finish();

  shape.choices = job.choices * static_cast<int>(prompts.size());
  shape.logprobs = job.options.logprobs >= 0;
  job.prompt = std::move(prompts);
  request.streams = shape.streams;
  request.writer = std::make_unique<CompletionWriter>(facts, shape);
  return request;
}

}  // namespace lapidary::serve
