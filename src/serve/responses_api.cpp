#include "serve/body.hpp"
#include "serve/responses_writer.hpp"
#include "serve/shared_fields.hpp"
#include "serve/turns.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr std::size_t kMaxInputItems = 4096;

// `media`: where pictures go; null: they are refused.
Value part_value(const Value& given, const std::string& path, MediaItems* media) {
  Fields part(given, path, Absent::null_or_empty);
  const std::string& type = part.need_text("type");
  Value value;
  if (media && type == "input_image") {
    value = read_input_image(part, *media);
  } else {
    if (is_media(type)) refuse_media(path, type);
    part.need_one_of("type", {"input_text", "output_text"});
    value = Value::Object{{"type", "text"}, {"text", part.need_text("text")}};
  }
  part.any_object("prompt_cache_breakpoint");
  part.list("logprobs");  // of an answer that comes back
  part.finish();
  return value;
}

// A text, or parts.
Value content_value(Fields& item, std::string_view name, MediaItems* media = nullptr) {
  const Value& content = item.need(name, "a text or a list of parts");
  const std::string path = item.path_of(name);
  if (content.string()) return content;
  if (!content.array()) refuse_value(path, "a text or a list of parts", &content);
  Value::Array parts;
  for (const Value& part : *content.array()) parts.push_back(part_value(part, path_at(path, parts.size()), media));
  return parts;
}

void read_message_item(Fields& item, Turns& turns, MediaItems& media) {
  const std::string role = item.need_one_of("role", {"system", "developer", "user", "assistant"});
  Value content = content_value(item, "content", role == "user" ? &media : nullptr);
  item.refused("phase", "the model has no phases");
  if (role == "assistant") {
    turns.answer(joined_text(content), item.path());
  } else {
    turns.say(role == "developer" ? "system" : role, std::move(content), item.path());
  }
}

void read_call_item(Fields& item, Turns& turns) {
  const std::string& arguments = item.need_text("arguments");
  turns.call(item.need_text("call_id"), item.need_text("name"), parse_object(arguments, item.path_of("arguments")),
             item.path_of("call_id"));
}

void read_result_item(Fields& item, Turns& turns) {
  turns.result(item.need_text("call_id"), joined_text(content_value(item, "output")), item.path_of("call_id"));
}

// A thought that comes back as we gave it: in the open.
void read_reasoning_item(Fields& item, Turns& turns) {
  item.refused("summary", "thoughts are read as reasoning_text in their content");
  item.refused("encrypted_content", "thoughts are read as reasoning_text in their content");
  const Value::Array* content = item.list("content");
  if (!content) return;
  const std::string path = item.path_of("content");
  for (std::size_t i = 0; i < content->size(); ++i) {
    Fields part((*content)[i], path_at(path, i), Absent::null_or_empty);
    part.need_one_of("type", {"reasoning_text"});
    turns.think(part.need_text("text"), part.path());
    part.finish();
  }
}

void read_item(const Value& given, const std::string& path, Turns& turns, MediaItems& media) {
  Fields item(given, path, Absent::null_or_empty);
  const std::string* named = item.text("type");
  const std::string type = named ? *named : "message";
  item.any_text("id");
  item.any_text("status");
  if (type == "message") {
    read_message_item(item, turns, media);
  } else if (type == "function_call") {
    read_call_item(item, turns);
  } else if (type == "function_call_output") {
    read_result_item(item, turns);
  } else if (type == "reasoning") {
    read_reasoning_item(item, turns);
  } else {
    refuse(item.path_of("type"),
           "not supported: expected message, function_call, function_call_output or reasoning, got " + shown(type),
           kUnsupportedParameter);
  }
  item.finish();
}

Value read_input(Fields& body, MediaItems& media) {
  Turns turns;
  if (const std::string* instructions = body.text("instructions")) turns.say("system", *instructions, "instructions");
  const Value& input = body.need("input", "a text or a list of items");
  if (input.string()) {
    turns.say("user", input, "input");
    return turns.take();
  }
  if (!input.array()) refuse_value("input", "a text or a list of items", &input);
  const Value::Array& items = *input.array();
  if (items.empty() || items.size() > kMaxInputItems) refuse_value("input", "1 to 4096 items", &input);
  for (std::size_t i = 0; i < items.size(); ++i) read_item(items[i], path_at("input", i), turns, media);
  if (turns.end() == Turns::End::call) refuse("input", "expected results of all calls, got a call at the end");
  if (turns.end() != Turns::End::other) refuse("input", "expected something to answer at the end, got the assistant's own");
  return turns.take();
}

Tools read_responses_tools(Fields& body) {
  Tools tools;
  const Value::Array* given = body.list("tools");
  for (std::size_t i = 0; given && i < given->size(); ++i) {
    Fields tool((*given)[i], path_at("tools", i));
    const std::string& type = tool.need_text("type");
    if (type != "function")
      refuse(tool.path_of("type"), "not supported: expected function, which the client runs, got " + shown(type), kUnsupportedParameter);
    tools.add(read_tool(tool), tool.path_of("name"));
    tool.without_effect("allowed_callers", {Value::Array{"direct"}});
    tool.without_effect("async", {false});
    tool.without_effect("defer_loading", {false});
    tool.refused("output_schema", "results are read as texts");
    tool.finish();
  }
  return tools;
}

ToolChoice read_responses_tool_choice(Fields& body) {
  using Kind = ToolChoice::Kind;
  ToolChoice choice{.parallel = body.boolean("parallel_tool_calls").value_or(true), .path = "tool_choice"};
  const Value* given = body.find("tool_choice");
  if (!given) return choice;
  if (!given->object()) {
    const std::string word = *body.one_of("tool_choice", {"none", "auto", "required"});
    choice.kind = word == "none" ? Kind::none : word == "auto" ? Kind::automatic : Kind::required;
    return choice;
  }
  Fields named(*given, "tool_choice");
  const std::string& type = named.need_text("type");
  if (type != "function")
    refuse("tool_choice.type", "not supported: expected function, got " + shown(type), kUnsupportedParameter);
  choice.kind = Kind::named;
  choice.name = named.need_text("name");
  named.finish();
  return choice;
}

// Returns the format as the answer repeats it.
Value read_text(Fields& body, Job& job) {
  const Value* given = body.object("text");
  const Value* format = nullptr;
  if (given) {
    Fields text(*given, "text");
    format = text.object("format");
    apply_format(format, "text.format", SchemaPlace::beside, job);
    text.without_effect("verbosity", {"medium"});
    text.finish();
  }
  return Value::Object{{"format", format ? *format : Value(Value::Object{{"type", "text"}})}};
}

// Returns the effort, null where there is none.
Value read_effort(Fields& body) {
  const Value* given = body.object("reasoning");
  if (!given) return {};
  Fields reasoning(*given, "reasoning");
  const auto effort = reasoning.one_of("effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  // The model writes no summaries; "auto" is content with what there is.
  reasoning.without_effect("summary", {"auto"});
  reasoning.without_effect("generate_summary", {"auto"});
  reasoning.without_effect("context", {"auto", "current_turn"});
  reasoning.without_effect("mode", {"standard"});
  reasoning.finish();
  return effort ? Value(*effort) : Value();
}

int read_responses_logprobs(Fields& body) {
  bool are_wanted = false;
  const Value::Array* include = body.list("include");
  for (std::size_t i = 0; include && i < include->size(); ++i) {
    const Value& one = (*include)[i];
    const std::string path = path_at("include", i);
    if (!one.string()) refuse_value(path, "a text", &one);
    are_wanted |= one == Value("message.output_text.logprobs");
    if (one != Value("message.output_text.logprobs") && one != Value("reasoning.encrypted_content"))
      refuse(path, "not supported: got " + shown(one), kUnsupportedParameter);
  }
  const auto top = body.integer("top_logprobs", 0, 20);
  if (top.value_or(0) > 0 && !are_wanted)
    refuse("top_logprobs", R"(expected it with "message.output_text.logprobs" in include, got it alone)");
  return are_wanted ? static_cast<int>(top.value_or(0)) : -1;
}

bool read_stream(Fields& body) {
  const bool streams = body.boolean("stream").value_or(false);
  if (const Value* given = body.object("stream_options")) {
    if (!streams) refuse("stream_options", "expected it with stream alone, got it without");
    Fields options(*given, "stream_options");
    options.boolean("include_obfuscation");
    options.finish();
  }
  return streams;
}

void read_responses_without_effect(Fields& body) {
  for (const std::string_view name : {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}) body.any_text(name);
  body.any_object("prompt_cache_options");
  body.without_effect("store", {false});
  body.without_effect("background", {false});
  body.without_effect("truncation", {"disabled"});
  body.without_effect("service_tier", {"auto", "default"});
}

void refuse_unsupported_responses(Fields& body) {
  for (const std::string_view name : {"previous_response_id", "conversation"})
    body.refused(name, "nothing is stored, input holds all of a conversation");
  body.refused("prompt", "nothing is stored, instructions and input hold all of it");
  body.refused("max_tool_calls", "the client runs the tools");
  body.refused("context_management", "nothing is taken from a conversation");
  body.refused("moderation", "nothing is moderated");
}

Value or_else(const Value* given, Value otherwise) { return given ? *given : std::move(otherwise); }

}  // namespace

Request read_response(const Value& object, const Facts& facts) {
  Fields body(object);
  read_model_name(body, facts);
  refuse_unsupported_responses(body);
  read_responses_without_effect(body);

  Job job;
  ChatPrompt prompt;
  MediaItems media{prompt.media, facts.fetcher};
  prompt.messages = read_input(body, media);
  const Value effort = read_effort(body);
  prompt.think = effort.is_null() ? facts.thinks : effort != Value("none");
  const Tools tools = read_responses_tools(body);
  prompt.tools = tools.declared();
  job.prompt = std::move(prompt);

  engine::AnswerOptions& options = job.options;
  options.sampling = read_sampling(body, facts);
  options.stops = read_stops(body, "stop");
  options.max_tokens = read_max_tokens(body, "max_output_tokens").value_or(0);
  options.thinking_budget_tokens = read_thinking_budget(body);
  options.logprobs = read_responses_logprobs(body);
  Value text = read_text(body, job);
  const ToolChoice choice = read_responses_tool_choice(body);
  apply_tools(tools, choice, options);
  job.cache_salt = read_cache_salt(body);
  const bool streams = read_stream(body);

  ResponseEcho echo{.instructions = or_else(body.find("instructions"), {}),
                    .max_output_tokens = or_else(body.find("max_output_tokens"), {}),
                    .metadata = or_else(body.object("metadata"), Value::Object{}),
                    .parallel_tool_calls = choice.parallel,
                    .reasoning = Value::Object{{"effort", effort}, {"summary", {}}},
                    .temperature = or_else(body.find("temperature"), {}),
                    .text = std::move(text),
                    .tool_choice = or_else(body.find("tool_choice"), "auto"),
                    .tools = or_else(body.find("tools"), Value::Array{}),
                    .top_p = or_else(body.find("top_p"), {})};
  body.finish();
  return {.job = std::move(job), .streams = streams, .writer = make_response_writer(facts, std::move(echo), streams)};
}

}  // namespace lapidary::serve
