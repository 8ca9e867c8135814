#include "serve/responses_writer.hpp"

#include "serve/events.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

struct Item {
  enum class Kind : std::uint8_t { reasoning, message, call };
  Kind kind;
  std::string id;
  std::string text{};             // of a call: its arguments
  std::string call_id{}, name{};  // of a call
  Value::Array logprobs{};        // of a message
  std::string_view status = "in_progress";
};

Value output_text(const Item& item) {
  return Value::Object{{"type", "output_text"}, {"text", item.text}, {"annotations", Value::Array{}}, {"logprobs", item.logprobs}};
}

Value item_value(const Item& item) {
  switch (item.kind) {
    case Item::Kind::reasoning: {
      Value::Array content;
      if (!item.text.empty()) content.push_back(Value::Object{{"type", "reasoning_text"}, {"text", item.text}});
      return Value::Object{{"type", "reasoning"}, {"id", item.id}, {"summary", Value::Array{}}, {"content", std::move(content)}};
    }
    case Item::Kind::message: {
      Value::Array content;
      if (!item.text.empty()) content.push_back(output_text(item));
      return Value::Object{
          {"type", "message"}, {"id", item.id}, {"role", "assistant"}, {"status", item.status}, {"content", std::move(content)}};
    }
    case Item::Kind::call:
      return Value::Object{{"type", "function_call"}, {"id", item.id},          {"call_id", item.call_id},
                           {"name", item.name},       {"arguments", item.text}, {"status", item.status}};
  }
  return {};
}

Value responses_usage(const Usage& usage) {
  return Value::Object{
      {"input_tokens", usage.prompt_tokens},
      {"input_tokens_details", Value::Object{{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details", Value::Object{{"reasoning_tokens", usage.reasoning_tokens}}},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

class ResponseWriter final : public AnswerWriter {
 public:
  ResponseWriter(const Facts& facts, ResponseEcho echo, bool streams)
      : random_id_(facts.random_id), id_("resp_" + facts.random_id()), model_(facts.names.front()), created_at_(facts.now_s()),
        echo_(std::move(echo)), streams_(streams) {}

  std::string begin(const Usage&) override {
    std::string events = tell("response.created", {{"response", response()}});
    return events + tell("response.in_progress", {{"response", response()}});
  }

  std::string add(const Delta& delta) override {
    std::string events;
    if (!delta.reasoning.empty()) events += add_thought(delta.reasoning);
    if (!delta.content.empty()) events += add_text(delta);
    for (const text::ToolCall& call : delta.calls) events += add_call(call);
    return events;
  }

  std::string end(const ChoiceEnd& end) override {
    status_ = end.finish == Finish::length ? "incomplete" : "completed";
    return close(status_);
  }

  std::string finish(const Outcome& outcome) override {
    Value::Object whole = response(responses_usage(outcome.usage));
    whole.emplace_back("seed", signed_seed(outcome.seed));
    if (!streams_) return text::to_json(whole);
    return tell("response." + std::string(status_), {{"response", std::move(whole)}});
  }

  std::string fail(const Refusal& refusal) override {
    // Nothing may come before response.created.
    std::string events = sequence_ == 0 ? begin({}) : "";
    status_ = "failed";
    error_ = Value::Object{{"code", "server_error"}, {"message", refusal.message}};
    if (is_open_) items_.back().status = "incomplete";
    return events + tell("response.failed", {{"response", response()}});
  }

 private:
  std::string tell(std::string_view type, Value::Object fields) {
    if (!streams_) return {};
    fields.insert(fields.begin(), {{"type", type}, {"sequence_number", sequence_++}});
    return event(type, fields);
  }

  std::int64_t output_index() const { return static_cast<std::int64_t>(items_.size()) - 1; }

  // Of the last item.
  std::string item_event(std::string_view type) {
    return tell(type, {{"output_index", output_index()}, {"item", item_value(items_.back())}});
  }
  std::string part_event(std::string_view type, Value::Object fields) {
    fields.insert(fields.begin(), {{"item_id", items_.back().id}, {"output_index", output_index()}, {"content_index", 0}});
    return tell(type, std::move(fields));
  }

  std::string open(Item item) {
    std::string events = close("completed");
    items_.push_back(std::move(item));
    is_open_ = true;
    return events + item_event("response.output_item.added");
  }

  bool is_open(Item::Kind kind) const { return is_open_ && items_.back().kind == kind; }

  std::string add_thought(const std::string& text) {
    std::string events;
    if (!is_open(Item::Kind::reasoning)) events = open({.kind = Item::Kind::reasoning, .id = "rs_" + random_id_()});
    items_.back().text += text;
    return events + part_event("response.reasoning_text.delta", {{"delta", text}});
  }

  std::string add_text(const Delta& delta) {
    std::string events;
    if (!is_open(Item::Kind::message)) {
      events = open({.kind = Item::Kind::message, .id = "msg_" + random_id_()});
      events += part_event("response.content_part.added", {{"part", output_text(items_.back())}});
    }
    Item& message = items_.back();
    message.text += delta.content;
    Value::Array logprobs;
    for (const LogprobEntry& entry : delta.logprobs) logprobs.push_back(logprob_object(entry));
    message.logprobs.insert(message.logprobs.end(), logprobs.begin(), logprobs.end());
    return events + part_event("response.output_text.delta", {{"delta", delta.content}, {"logprobs", std::move(logprobs)}});
  }

  std::string add_call(const text::ToolCall& call) {
    std::string events =
        open({.kind = Item::Kind::call, .id = "fc_" + random_id_(), .call_id = "call_" + random_id_(), .name = call.name});
    Item& item = items_.back();
    item.text = text::to_json(call.arguments);
    events += tell("response.function_call_arguments.delta",
                   {{"item_id", item.id}, {"output_index", output_index()}, {"delta", item.text}});
    return events + close("completed");
  }

  std::string close(std::string_view status) {
    if (!is_open_) return {};
    is_open_ = false;
    Item& item = items_.back();
    item.status = status;
    std::string events;
    switch (item.kind) {
      case Item::Kind::reasoning: events = part_event("response.reasoning_text.done", {{"text", item.text}}); break;
      case Item::Kind::message:
        events = part_event("response.output_text.done", {{"text", item.text}, {"logprobs", item.logprobs}});
        events += part_event("response.content_part.done", {{"part", output_text(item)}});
        break;
      case Item::Kind::call:
        events = tell("response.function_call_arguments.done",
                      {{"item_id", item.id}, {"output_index", output_index()}, {"name", item.name}, {"arguments", item.text}});
        break;
    }
    return events + item_event("response.output_item.done");
  }

  // As it is now.
  Value::Object response(Value usage = {}) const {
    Value::Array output;
    for (const Item& item : items_) output.push_back(item_value(item));
    Value incomplete;
    if (status_ == "incomplete") incomplete = Value::Object{{"reason", "max_output_tokens"}};
    return {{"id", id_},
            {"object", "response"},
            {"created_at", created_at_},
            {"status", status_},
            {"error", error_},
            {"incomplete_details", std::move(incomplete)},
            {"instructions", echo_.instructions},
            {"max_output_tokens", echo_.max_output_tokens},
            {"metadata", echo_.metadata},
            {"model", model_},
            {"output", std::move(output)},
            {"parallel_tool_calls", echo_.parallel_tool_calls},
            {"previous_response_id", {}},
            {"reasoning", echo_.reasoning},
            {"store", false},
            {"temperature", echo_.temperature},
            {"text", echo_.text},
            {"tool_choice", echo_.tool_choice},
            {"tools", echo_.tools},
            {"top_p", echo_.top_p},
            {"truncation", "disabled"},
            {"usage", std::move(usage)}};
  }

  const std::function<std::string()> random_id_;
  const std::string id_, model_;
  const std::int64_t created_at_;
  const ResponseEcho echo_;
  const bool streams_;
  std::int64_t sequence_ = 0;  // of the next event
  std::vector<Item> items_;
  bool is_open_ = false;       // the last of them
  std::string_view status_ = "in_progress";
  Value error_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_response_writer(const Facts& facts, ResponseEcho echo, bool streams) {
  return std::make_unique<ResponseWriter>(facts, std::move(echo), streams);
}

}  // namespace lapidary::serve
