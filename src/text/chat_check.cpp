#include <algorithm>
#include <string>

#include "checkpoint/error.hpp"
#include "text/chat.hpp"
#include "text/chat_fields.hpp"

namespace lapidary::text {

namespace {

constexpr std::string_view kParts[] = {"text", "image", "audio", "video"};
constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "model", "tool"};

void check_role(const Value& message, const std::string& path) {
  const std::string& role = string_field(message, "role", path);
  if (std::ranges::find(kRoles, role) == std::end(kRoles))
    fail(ErrorKind::bad_value, "chat",
         path + ".role, expected system, developer, user, assistant, model or tool, got " + to_json(role));
}

void check_content(const Value& message, const std::string& path) {
  const Value* content = message.find("content");
  if (!content || content->is_null()) {
    if (truthy_field(message, "tool_calls") || truthy_field(message, "tool_responses")) return;
    reject(path + ".content", "a string or a list", content);
  }
  if (!content->array()) return;
  for (std::size_t i = 0; i < content->array()->size(); ++i) {
    const Value* type = (*content->array())[i].find("type");
    if (type && (!type->string() || std::ranges::find(kParts, *type->string()) == std::end(kParts)))
      fail(ErrorKind::unsupported, "chat",
           item_path(path + ".content", i) + ".type, expected text, image, audio or video, got " + to_json(*type));
  }
}

Value with_field(const Value& of, std::string_view key, Value value) {
  Value::Object fields = *of.object();
  std::ranges::find(fields, key, &std::pair<std::string, Value>::first)->second = std::move(value);
  return fields;
}

// "arguments": "{...}" as an object. What is no JSON may be the notation of an older template.
Value with_read_arguments(const Value& call, const std::string& path) {
  const Value* function = call.find("function");
  const Value* arguments = function ? function->find("arguments") : nullptr;
  if (!arguments || !arguments->string() || !arguments->string()->starts_with('{')) return call;
  return with_field(call, "function",
                    with_field(*function, "arguments", parse_json(*arguments->string(), path + ".function.arguments")));
}

Value checked(const Value& message, const std::string& path) {
  if (!message.object()) reject(path, "an object", &message);
  check_role(message, path);
  check_content(message, path);
  const Value* calls = message.find("tool_calls");
  if (!calls || !calls->array()) return message;
  Value::Array read;
  for (const Value& call : *calls->array())
    read.push_back(with_read_arguments(call, item_path(path + ".tool_calls", read.size())));
  return with_field(message, "tool_calls", std::move(read));
}

}  // namespace

Value checked_messages(const Value& messages) {
  Value::Array all;
  for (const Value& message : as_array(messages, "messages")) all.push_back(checked(message, item_path("messages", all.size())));
  if (all.empty()) fail(ErrorKind::bad_value, "chat", "messages, expected at least one, got none");
  return all;
}

}  // namespace lapidary::text
