// POST /v1/chat/completions: from its body to a job.
#include "serve/chat_messages.hpp"
#include "serve/openai_fields.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

ToolChoice read_chat_tool_choice(Fields& body) {
  using Kind = ToolChoice::Kind;
  ToolChoice choice{.parallel = body.boolean("parallel_tool_calls").value_or(true), .path = body.path_of("tool_choice")};
  const Value* given = body.find("tool_choice");
  if (given && given->object()) {
    Fields fields(*given, choice.path);
    fields.need_one_of("type", {"function"});
    Fields function(fields.need("function", "an object"), fields.path_of("function"));
    choice.kind = Kind::named;
    choice.name = function.need_text("name");
    choice.path = function.path_of("name");
    function.finish();
    fields.finish();
  } else if (const auto word = body.one_of("tool_choice", {"none", "auto", "required"})) {
    choice.kind = *word == "none" ? Kind::none : *word == "required" ? Kind::required : Kind::automatic;
  }
  return choice;
}

std::int32_t read_limit(Fields& body) {
  const auto limit = read_max_tokens(body, "max_completion_tokens"), older = read_max_tokens(body, "max_tokens");
  if (limit && older && *limit != *older)
    refuse("max_tokens", "expected the same as max_completion_tokens, got " + std::to_string(*older) + " against " + std::to_string(*limit));
  return limit ? *limit : older.value_or(0);
}

int read_chat_logprobs(Fields& body) {
  constexpr int kMaxTop = 20;
  const bool asked = body.boolean("logprobs").value_or(false);
  const auto top = body.integer("top_logprobs", 0, kMaxTop);
  if (top && !asked) refuse("top_logprobs", "expected `logprobs` to be true, got a number without it");
  return asked ? static_cast<int>(top.value_or(0)) : -1;
}

}  // namespace

Request read_chat(const Value& given, const Facts& facts) {
  Fields body(given);
  Request request;
  Job& job = request.job;
  AnswerShape shape;
  ChatPrompt prompt = read_chat_prompt(body, facts);
  read_common(body, facts, job);
  read_stream(body, shape);
  job.options.max_tokens = read_limit(body);
  job.options.logprobs = read_chat_logprobs(body);
  job.options.thinking_budget_tokens = read_thinking_budget(body);

  const Tools tools = read_chat_tools(body);
  prompt.tools = tools.declared();
  apply_format(body.object("response_format"), "response_format", SchemaPlace::nested, job);
  apply_tools(tools, read_chat_tool_choice(body), job.options);
  body.finish();

  job.prompt = std::move(prompt);
  shape.choices = job.choices;
  shape.logprobs = job.options.logprobs >= 0;
  request.streams = shape.streams;
  request.writer = chat_writer(facts, shape);
  return request;
}

}  // namespace lapidary::serve
