// What a chat completion answers, whole or in chunks.
#include "serve/events.hpp"
#include "serve/openai_writer.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

class ChatWriter final : public OpenAiWriter {
 public:
  ChatWriter(const Facts& facts, const AnswerShape& shape)
      : OpenAiWriter(facts, shape, "chatcmpl-", "chat.completion", "chat.completion.chunk"), choices_(static_cast<std::size_t>(shape.choices)) {}

  std::string begin(const Usage&) override {
    std::string events;
    for (int i = 0; shape_.streams && i < shape_.choices; ++i) events += chunk(choice(i, {{"role", "assistant"}, {"content", ""}}));
    return events;
  }

  std::string add(const Delta& delta) override {
    Choice& state = choices_[static_cast<std::size_t>(delta.index)];
    Value::Array entries;
    for (const LogprobEntry& entry : delta.logprobs) entries.push_back(logprob_object(entry));
    return shape_.streams ? events_of(delta, state, std::move(entries)) : keep(delta, state, std::move(entries));
  }

 protected:
  Value last_choice(int index, std::string_view finish_reason) const override { return choice(index, {}, {}, finish_reason); }

  Value whole_choice(int index, std::string_view finish_reason) const override {
    const Choice& state = choices_[static_cast<std::size_t>(index)];
    const bool only_calls = state.content.empty() && !state.calls.empty();
    Value::Object message{{"role", "assistant"}, {"content", only_calls ? Value() : Value(state.content)}};
    if (!state.reasoning.empty()) message.emplace_back("reasoning_content", state.reasoning);
    if (!state.calls.empty()) message.emplace_back("tool_calls", state.calls);
    message.emplace_back("refusal", Value());
    return Value::Object{{"index", index},
                         {"message", std::move(message)},
                         {"logprobs", shape_.logprobs ? logprobs(state.entries) : Value()},
                         {"finish_reason", finish_reason}};
  }

 private:
  struct Choice {
    std::string reasoning, content;
    Value::Array calls, entries;
    int call_count = 0;
  };

  std::string keep(const Delta& delta, Choice& state, Value::Array entries) {
    state.reasoning += delta.reasoning;
    state.content += delta.content;
    state.entries.insert(state.entries.end(), entries.begin(), entries.end());
    for (const text::ToolCall& call : delta.calls)
      state.calls.push_back(Value::Object{
          {"id", call_id()}, {"type", "function"}, {"function", function(call.name, text::to_json(call.arguments))}});
    return "";
  }

  std::string events_of(const Delta& delta, Choice& state, Value::Array entries) {
    std::string events;
    if (!delta.reasoning.empty()) events += chunk(choice(delta.index, {{"reasoning_content", delta.reasoning}}));
    if (!delta.content.empty() || !entries.empty())
      events += chunk(choice(delta.index, {{"content", delta.content}}, shape_.logprobs ? logprobs(std::move(entries)) : Value()));
    for (const text::ToolCall& call : delta.calls) {
      const int index = state.call_count++;
      const auto send = [&](Value::Object part) { events += chunk(choice(delta.index, {{"tool_calls", Value::Array{std::move(part)}}})); };
      send({{"index", index}, {"id", call_id()}, {"type", "function"}, {"function", function(call.name, "")}});
      send({{"index", index}, {"function", Value::Object{{"arguments", text::to_json(call.arguments)}}}});
    }
    return events;
  }

  static Value choice(int index, Value::Object delta, Value logprobs = {}, Value finish_reason = {}) {
    return Value::Object{{"index", index}, {"delta", std::move(delta)}, {"logprobs", std::move(logprobs)},
                         {"finish_reason", std::move(finish_reason)}};
  }

  static Value logprobs(Value::Array entries) { return Value::Object{{"content", std::move(entries)}, {"refusal", Value()}}; }

  static Value function(const std::string& name, std::string arguments) {
    return Value::Object{{"name", name}, {"arguments", std::move(arguments)}};
  }

  std::string call_id() const { return "call_" + facts_.random_id(); }

  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> chat_writer(const Facts& facts, const AnswerShape& shape) { return std::make_unique<ChatWriter>(facts, shape); }

}  // namespace lapidary::serve
