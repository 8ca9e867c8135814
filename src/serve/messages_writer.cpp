#include "serve/messages_writer.hpp"

#include "serve/events.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

// Clients want one and send it back; nothing is signed.
constexpr std::string_view kSignature = "bGFwaWRhcnk=";

std::string_view stop_reason(Finish finish) {
  switch (finish) {
    case Finish::stop: return "end_turn";
    case Finish::stop_text: return "stop_sequence";
    case Finish::length: return "max_tokens";
    case Finish::tool_calls: return "tool_use";
  }
  return {};
}

Value messages_usage(const Usage& usage) {
  return Value::Object{{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
                       {"cache_creation_input_tokens", 0},
                       {"cache_read_input_tokens", usage.cached_tokens},
                       {"output_tokens", usage.completion_tokens}};
}

Value thinking_block(std::string_view text, std::string_view signature) {
  return Value::Object{{"type", "thinking"}, {"thinking", text}, {"signature", signature}};
}
Value text_block(std::string_view text) { return Value::Object{{"type", "text"}, {"text", text}}; }
Value tool_block(std::string_view id, std::string_view name, Value input) {
  return Value::Object{{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", std::move(input)}};
}

class MessageWriter final : public AnswerWriter {
 public:
  MessageWriter(const Facts& facts, bool streams)
      : random_id_(facts.random_id), id_("msg_" + facts.random_id()), model_(facts.names.front()), streams_(streams) {}

  std::string begin(const Usage& prompt) override {
    has_begun_ = true;
    return tell("message_start", {{"message", message(messages_usage(prompt))}});
  }

  std::string add(const Delta& delta) override {
    std::string events;
    if (!delta.reasoning.empty()) events += add_text(Open::thinking, delta.reasoning);
    if (!delta.content.empty()) events += add_text(Open::text, delta.content);
    for (const text::ToolCall& call : delta.calls) events += add_call(call);
    return events;
  }

  std::string end(const ChoiceEnd& end) override {
    stop_reason_ = stop_reason(end.finish);
    if (end.finish == Finish::stop_text) stop_sequence_ = end.stop_text;
    return close();
  }

  std::string finish(const Outcome& outcome) override {
    if (streams_)
      return tell("message_delta", {{"delta", Value::Object{{"stop_reason", stop_reason_}, {"stop_sequence", stop_sequence_}}},
                                     {"usage", messages_usage(outcome.usage)},
                                     {"seed", signed_seed(outcome.seed)}}) +
             tell("message_stop", {});
    Value::Object whole = message(messages_usage(outcome.usage));
    whole.emplace_back("seed", signed_seed(outcome.seed));
    return text::to_json(whole);
  }

  // Clients do not look for a ping before there is a message.
  std::string keep_alive() override { return has_begun_ ? tell("ping", {}) : AnswerWriter::keep_alive(); }

  std::string fail(const Refusal& refusal) override { return "event: error\ndata: " + anthropic_error(refusal, {}) + "\n\n"; }

 private:
  enum class Open : std::uint8_t { none, thinking, text };

  std::string tell(std::string_view type, Value::Object fields) const {
    if (!streams_) return {};
    fields.insert(fields.begin(), {"type", type});
    return event(type, fields);
  }

  std::string block_event(std::string_view type, Value::Object fields) const {
    fields.insert(fields.begin(), {"index", static_cast<std::int64_t>(blocks_.size())});
    return tell(type, std::move(fields));
  }
  std::string delta_event(std::string_view type, std::string_view key, std::string_view text) const {
    return block_event("content_block_delta", {{"delta", Value::Object{{"type", type}, {std::string(key), text}}}});
  }

  std::string add_text(Open kind, std::string_view text) {
    std::string events;
    const bool thinks = kind == Open::thinking;
    if (open_ != kind) {
      events = close();
      open_ = kind;
      events += block_event("content_block_start", {{"content_block", thinks ? thinking_block("", "") : text_block("")}});
    }
    text_ += text;
    return events + (thinks ? delta_event("thinking_delta", "thinking", text) : delta_event("text_delta", "text", text));
  }

  std::string add_call(const text::ToolCall& call) {
    const std::string id = "toolu_" + random_id_();
    std::string events = close();
    events += block_event("content_block_start", {{"content_block", tool_block(id, call.name, Value::Object{})}});
    events += delta_event("input_json_delta", "partial_json", text::to_json(call.arguments));
    return events + stop(tool_block(id, call.name, call.arguments));
  }

  std::string close() {
    const Open kind = std::exchange(open_, Open::none);
    const std::string text = std::exchange(text_, {});
    switch (kind) {
      case Open::none: return {};
      case Open::text: return stop(text_block(text));
      case Open::thinking: break;
    }
    std::string events = delta_event("signature_delta", "signature", kSignature);
    return events + stop(thinking_block(text, kSignature));
  }

  std::string stop(Value block) {
    std::string events = block_event("content_block_stop", {});
    blocks_.push_back(std::move(block));
    return events;
  }

  // As it is now.
  Value::Object message(Value usage) const {
    return {{"id", id_},           {"type", "message"},           {"role", "assistant"},             {"model", model_},
            {"content", blocks_},  {"stop_reason", stop_reason_}, {"stop_sequence", stop_sequence_}, {"usage", std::move(usage)}};
  }

  const std::function<std::string()> random_id_;
  const std::string id_, model_;
  const bool streams_;
  bool has_begun_ = false;
  Open open_ = Open::none;
  std::string text_;      // of the open block
  Value::Array blocks_;   // that have ended
  Value stop_reason_, stop_sequence_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_message_writer(const Facts& facts, bool streams) {
  return std::make_unique<MessageWriter>(facts, streams);
}

}  // namespace lapidary::serve
