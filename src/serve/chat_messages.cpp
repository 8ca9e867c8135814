#include "serve/chat_messages.hpp"

#include <unordered_set>

#include "serve/body.hpp"
#include "serve/shared_fields.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr std::size_t kMaxCalls = 1024;  // of one message

class MessageReader {
 public:
  explicit MessageReader(const MediaItems& media) : media_(media) {}

  Value read(const Value& given, const std::string& path) {
    Fields fields(given, path, Absent::null_or_empty);
    const std::string role = fields.need_one_of("role", {"system", "developer", "user", "assistant", "tool"});
    fields.any_text("name");  // the template has no place for it; results go by the name of their call
    Value::Object message{{"role", role == "developer" ? "system" : role}};
    if (role == "assistant") {
      read_assistant(fields, message);
    } else {
      if (role == "tool") message.emplace_back("tool_call_id", answered_call(fields));
      else call_ids_.clear();
      message.emplace_back("content", read_content(fields.need("content", "a text or a list of parts"), fields.path_of("content"),
                                                   role == "user" ? &media_ : nullptr));
    }
    fields.finish();
    return message;
  }

 private:
  void read_assistant(Fields& fields, Value::Object& message) {
    call_ids_.clear();
    if (const auto text = reasoning(fields)) message.emplace_back("reasoning", *text);
    Value::Array calls;
    if (const Value::Array* given = fields.list("tool_calls")) {
      const std::string path = fields.path_of("tool_calls");
      if (given->size() > kMaxCalls) refuse(path, "expected at most " + std::to_string(kMaxCalls) + " calls, got " + std::to_string(given->size()));
      for (const Value& call : *given) calls.push_back(read_call(call, path_at(path, calls.size())));
    }
    const Value* text = fields.find("content");
    if (!text && calls.empty()) refuse_value(fields.path_of("content"), "a text or a list of parts", nullptr);
    message.emplace_back("content", text ? read_content(*text, fields.path_of("content")) : Value());
    if (!calls.empty()) message.emplace_back("tool_calls", std::move(calls));
  }

  static std::optional<std::string> reasoning(Fields& fields) {
    const std::string *one = fields.text("reasoning_content"), *other = fields.text("reasoning");
    if (one && other && *one != *other) refuse(fields.path_of("reasoning"), "expected the same as reasoning_content, got another text");
    if (!one) one = other;
    return one ? std::optional(*one) : std::nullopt;
  }

  Value read_call(const Value& given, const std::string& path) {
    Fields call(given, path, Absent::null_or_empty);
    const std::string& id = call.need_text("id");
    if (!call_ids_.insert(id).second) refuse(call.path_of("id"), "expected an id of its own, got " + shown(id) + " again");
    call.one_of("type", {"function"});
    Fields function(call.need("function", "an object"), call.path_of("function"), Absent::null_or_empty);
    const std::string& name = function.need_text("name");
    if (name.empty()) refuse(function.path_of("name"), "expected a name, got an empty one");
    Value arguments = parse_object(function.need_text("arguments"), function.path_of("arguments"));
    function.finish();
    call.finish();
    return Value::Object{{"id", id}, {"type", "function"}, {"function", Value::Object{{"name", name}, {"arguments", std::move(arguments)}}}};
  }

  // The template puts results behind the calls that they follow, and has no other place for them.
  std::string answered_call(Fields& fields) const {
    const std::string& id = fields.need_text("tool_call_id");
    if (!call_ids_.contains(id))
      refuse(fields.path_of("tool_call_id"), "expected a call of the assistant's message before it, got " + shown(id));
    return id;
  }

  MediaItems media_;
  std::unordered_set<std::string> call_ids_;  // that tool messages may answer now
};

bool read_thinking(Fields& body, ChatPrompt& prompt, bool thinks) {
  const auto effort = body.one_of("reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  std::optional<bool> enabled;
  if (const Value* given = body.object("chat_template_kwargs")) {
    Fields settings(*given, body.path_of("chat_template_kwargs"));
    enabled = settings.boolean("enable_thinking");
    prompt.preserve_thinking = settings.boolean("preserve_thinking").value_or(false);
    settings.finish();
  }
  if (effort && enabled && *enabled != (*effort != "none"))
    refuse(body.path_of("reasoning_effort"), "expected what enable_thinking says, got " + shown(*effort) + " against it");
  return effort ? *effort != "none" : enabled.value_or(thinks);
}

void check_last(const Value& last, const std::string& path, bool continues) {
  const bool is_answer = *last.find("role") == Value("assistant");
  if (!continues && is_answer) refuse(path, "expected a message to answer at the end, or continue_final_message, got the assistant's");
  if (!continues) return;
  if (!is_answer) refuse("continue_final_message", "expected the assistant's message at the end, got " + shown(*last.find("role")));
  if (last.find("tool_calls")) refuse(path_in(path, "tool_calls"), "expected a text to continue, got calls");
  if (last.find("reasoning")) refuse(path_in(path, "reasoning_content"), "expected a text to continue, got a thought", kUnsupportedParameter);
}

}  // namespace

ChatPrompt read_chat_prompt(Fields& body, const Facts& facts) {
  ChatPrompt prompt;
  prompt.think = read_thinking(body, prompt, facts.thinks);
  prompt.continues = body.boolean("continue_final_message").value_or(false);
  body.need("messages", "a list");
  const Value::Array& given = *body.list("messages");
  const std::string path = body.path_of("messages");
  if (given.empty() || given.size() > kMaxMessages) refuse(path, "expected 1 to 4096 messages, got " + std::to_string(given.size()));
  MessageReader reader({prompt.media, facts.fetcher});
  Value::Array messages;
  for (const Value& message : given) messages.push_back(reader.read(message, path_at(path, messages.size())));
  check_last(messages.back(), path_at(path, messages.size() - 1), prompt.continues);
  prompt.messages = std::move(messages);
  return prompt;
}

Tools read_chat_tools(Fields& body) {
  Tools tools;
  const Value::Array* given = body.list("tools");
  for (std::size_t i = 0; given && i < given->size(); ++i) {
    Fields tool((*given)[i], path_at(body.path_of("tools"), i));
    if (const std::string& type = tool.need_text("type"); type != "function")
      refuse(tool.path_of("type"), "expected \"function\" (tools that the client runs), got " + shown(type), kUnsupportedParameter);
    Fields function(tool.need("function", "an object"), tool.path_of("function"));
    tools.add(read_tool(function), function.path_of("name"));
    function.finish();
    tool.finish();
  }
  return tools;
}

}  // namespace lapidary::serve
