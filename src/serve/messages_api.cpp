#include "serve/messages_writer.hpp"
#include "serve/shared_fields.hpp"
#include "serve/turns.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr std::string_view kErrorMark = "Error: ";  // before the result of a call that failed

// A text, or blocks: `read(Fields&, type)` of each, which returns whether it knows the type.
template <class Read>
void read_blocks(const Value& content, const std::string& path, std::string_view types, Read read) {
  if (!content.array()) refuse_value(path, "a text or a list of blocks", &content);
  for (std::size_t i = 0; i < content.array()->size(); ++i) {
    Fields block((*content.array())[i], path_at(path, i), Absent::null_or_empty);
    const std::string& type = block.need_text("type");
    block.any_object("cache_control");
    if (!read(block, type)) {
      if (is_media(type)) refuse_media(block.path(), type);
      refuse(block.path_of("type"), "not supported: expected " + std::string(types) + ", got " + shown(type), kUnsupportedParameter);
    }
    block.finish();
  }
}

// Text alone, as parts.
Value::Array text_parts(const Value& content, const std::string& path) {
  Value::Array parts;
  read_blocks(content, path, "text", [&](Fields& block, std::string_view type) {
    if (type != "text") return false;
    parts.push_back(Value::Object{{"type", "text"}, {"text", block.need_text("text")}});
    return true;
  });
  return parts;
}

void read_result(Fields& block, Turns& turns) {
  const std::string& id = block.need_text("tool_use_id");
  std::string text = block.boolean("is_error").value_or(false) ? std::string(kErrorMark) : "";
  if (const Value* content = block.find("content")) {
    const std::string path = block.path_of("content");
    text += content->string() ? *content->string() : joined_text(text_parts(*content, path));
  }
  turns.result(id, std::move(text), block.path_of("tool_use_id"));
}

void read_user(const Value& content, const std::string& path, Turns& turns, MediaItems& media) {
  if (content.string()) return turns.say("user", content, path);
  Value::Array parts;
  read_blocks(content, path, "text, image or tool_result", [&](Fields& block, std::string_view type) {
    if (type == "text") {
      parts.push_back(Value::Object{{"type", "text"}, {"text", block.need_text("text")}});
    } else if (type == "image") {
      parts.push_back(read_image_block(block, media));
    } else if (type == "tool_result") {
      if (!parts.empty()) refuse(block.path(), "expected results of calls before all text, got one behind it");
      read_result(block, turns);
    }
    return type == "text" || type == "image" || type == "tool_result";
  });
  if (!parts.empty()) turns.say("user", std::move(parts), path);
}

void read_assistant(const Value& content, const std::string& path, Turns& turns) {
  if (content.string()) return turns.answer(*content.string(), path);
  read_blocks(content, path, "text, thinking or tool_use", [&](Fields& block, std::string_view type) {
    if (type == "text") {
      turns.answer(block.need_text("text"), block.path());
    } else if (type == "thinking") {
      turns.think(block.need_text("thinking"), block.path());
      block.any_text("signature");
    } else if (type == "tool_use") {
      const Value* input = block.object("input");
      turns.call(block.need_text("id"), block.need_text("name"), input ? *input : Value(Value::Object{}), block.path_of("id"));
      block.without_effect("caller", {Value::Object{{"type", "direct"}}});
    }
    return type == "text" || type == "thinking" || type == "tool_use";
  });
}

void read_messages(Fields& body, const Facts& facts, ChatPrompt& prompt) {
  Turns turns;
  MediaItems media{prompt.media, facts.fetcher};
  if (const Value* system = body.find("system"))
    turns.say("system", system->string() ? *system->string() : joined_text(text_parts(*system, "system"), "\n"), "system");
  const Value& messages = body.need("messages", "a list");
  if (!messages.array()) refuse_value("messages", "a list", &messages);
  if (messages.array()->empty() || messages.array()->size() > kMaxMessages) refuse_value("messages", "1 to 4096 messages", &messages);
  std::string path;
  for (std::size_t i = 0; i < messages.array()->size(); ++i) {
    path = path_at("messages", i);
    Fields message((*messages.array())[i], path, Absent::null_or_empty);
    const std::string role = message.need_one_of("role", {"user", "assistant"});
    const Value& content = message.need("content", "a text or a list of blocks");
    if (role == "user") read_user(content, message.path_of("content"), turns, media);
    else read_assistant(content, message.path_of("content"), turns);
    message.finish();
  }
  const Turns::End end = turns.end();
  if (end == Turns::End::call) refuse(path, "expected results of all calls, got a call at the end");
  if (end == Turns::End::thought) refuse(path, "expected text alone in a message to be continued, got a thought");
  prompt.continues = end == Turns::End::text;
  prompt.messages = turns.take();
}

Tools read_messages_tools(Fields& body) {
  Tools tools;
  const Value::Array* given = body.list("tools");
  for (std::size_t i = 0; given && i < given->size(); ++i) {
    Fields tool((*given)[i], path_at("tools", i));
    const std::string* type = tool.text("type");
    if (type && *type != "custom")
      refuse(tool.path_of("type"), "not supported: expected custom, which the client runs, got " + shown(*type), kUnsupportedParameter);
    tool.need("input_schema", "an object");
    tools.add(read_tool(tool, "input_schema"), tool.path_of("name"));
    tool.any_object("cache_control");
    tool.boolean("eager_input_streaming");  // calls are delivered when they are whole
    tool.without_effect("allowed_callers", {Value::Array{"direct"}});
    tool.without_effect("defer_loading", {false});
    tool.without_effect("input_examples", {Value::Array{}});
    tool.finish();
  }
  return tools;
}

ToolChoice read_messages_tool_choice(Fields& body) {
  using Kind = ToolChoice::Kind;
  ToolChoice choice{.path = "tool_choice"};
  const Value* given = body.object("tool_choice");
  if (!given) return choice;
  Fields fields(*given, "tool_choice");
  const std::string type = fields.need_one_of("type", {"auto", "any", "tool", "none"});
  choice.kind = type == "auto" ? Kind::automatic : type == "any" ? Kind::required : type == "tool" ? Kind::named : Kind::none;
  if (choice.kind == Kind::named) choice.name = fields.need_text("name");
  choice.parallel = !fields.boolean("disable_parallel_tool_use").value_or(false);
  fields.finish();
  return choice;
}

// Returns whether there is to be a thought.
bool read_thinking(Fields& body, const Facts& facts, engine::AnswerOptions& options) {
  const Value* given = body.object("thinking");
  if (!given) return facts.thinks;
  Fields thinking(*given, "thinking");
  const std::string type = thinking.need_one_of("type", {"enabled", "adaptive", "disabled"});
  if (type == "enabled") {
    thinking.need("budget_tokens", "a whole number");
    options.thinking_budget_tokens = read_max_tokens(thinking, "budget_tokens");
    if (options.max_tokens > 0 && *options.thinking_budget_tokens >= options.max_tokens)
      refuse_value("thinking.budget_tokens", "less than max_tokens", thinking.find("budget_tokens"));
  }
  thinking.without_effect("display", {"summarized"});  // thoughts are shown, as they are
  thinking.finish();
  return type != "disabled";
}

void read_output_config(Fields& body, Job& job) {
  const Value* given = body.object("output_config");
  if (!given) return;
  Fields config(*given, "output_config");
  config.one_of("effort", {"low", "medium", "high", "xhigh", "max"});  // thinking is its own switch
  if (const Value* format = config.object("format")) {
    Fields(*format, "output_config.format").need_one_of("type", {"json_schema"});
    apply_format(format, "output_config.format", SchemaPlace::beside, job);
  }
  config.finish();
}

void read_messages_without_effect(Fields& body) {
  body.any_object("cache_control");
  body.any_object("metadata");
  body.one_of("service_tier", {"auto", "standard_only"});
  body.without_effect("speed", {"standard"});
}

void refuse_unsupported_messages(Fields& body) {
  for (const std::string_view name : {"container", "mcp_servers"}) body.refused(name, "the client runs the tools");
  body.refused("context_management", "nothing is taken from a conversation");
}

enum class Limit : std::uint8_t { needed, optional };

Job read_job(Fields& body, const Facts& facts, Limit limit) {
  read_model_name(body, facts);
  refuse_unsupported_messages(body);
  read_messages_without_effect(body);

  Job job;
  engine::AnswerOptions& options = job.options;
  if (limit == Limit::needed) body.need("max_tokens", "a whole number");
  options.max_tokens = read_max_tokens(body, "max_tokens").value_or(0);
  options.sampling = read_sampling(body, facts);
  options.stops = read_stops(body, "stop_sequences");

  ChatPrompt prompt;
  read_messages(body, facts, prompt);
  prompt.think = read_thinking(body, facts, options);
  const Tools tools = read_messages_tools(body);
  prompt.tools = tools.declared();
  job.prompt = std::move(prompt);
  read_output_config(body, job);
  apply_tools(tools, read_messages_tool_choice(body), options);
  job.cache_salt = read_cache_salt(body);
  return job;
}

}  // namespace

Request read_message(const Value& object, const Facts& facts) {
  Fields body(object);
  Job job = read_job(body, facts, Limit::needed);
  const bool streams = body.boolean("stream").value_or(false);
  body.finish();
  return {.job = std::move(job), .streams = streams, .writer = make_message_writer(facts, streams)};
}

ChatPrompt read_count_tokens(const Value& object, const Facts& facts) {
  Fields body(object);
  Job job = read_job(body, facts, Limit::optional);
  body.boolean("stream");
  body.finish();
  return std::get<ChatPrompt>(std::move(job.prompt));
}

}  // namespace lapidary::serve
