#include "serve/turns.hpp"

#include <algorithm>

#include "serve/fields.hpp"

namespace lapidary::serve {

using text::Value;

void Turns::say(std::string_view role, Value content, const std::string& path) {
  check_answered(path);
  close();
  messages_.push_back(Value::Object{{"role", role}, {"content", std::move(content)}});
}

void Turns::think(std::string_view text, const std::string& path) { assistant(path).reasoning += text; }

void Turns::answer(std::string_view text, const std::string& path) {
  std::optional<std::string>& content = assistant(path).content;
  content = content.value_or("").append(text);
}

void Turns::call(const std::string& id, std::string_view name, Value arguments, const std::string& id_path) {
  Assistant& message = assistant(id_path);
  if (std::ranges::find(unanswered_, id) != unanswered_.end())
    refuse(id_path, "expected an id of its own, got " + shown(id) + " again");
  unanswered_.push_back(id);
  message.calls.push_back(Value::Object{
      {"id", id}, {"type", "function"}, {"function", Value::Object{{"name", name}, {"arguments", std::move(arguments)}}}});
}

void Turns::result(const std::string& id, std::string text, const std::string& id_path) {
  close();
  const auto call = std::ranges::find(unanswered_, id);
  if (call == unanswered_.end()) refuse(id_path, "expected the id of a call right before, got " + shown(id));
  unanswered_.erase(call);
  messages_.push_back(Value::Object{{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(text)}});
}

Turns::End Turns::end() const {
  if (!unanswered_.empty()) return End::call;
  if (!open_) return End::other;
  return open_->reasoning.empty() ? End::text : End::thought;
}

Value Turns::take() {
  close();
  return std::move(messages_);
}

Turns::Assistant& Turns::assistant(const std::string& path) {
  if (!open_) {
    check_answered(path);
    open_.emplace();
  }
  return *open_;
}

void Turns::check_answered(const std::string& path) const {
  if (!unanswered_.empty()) refuse(path, "expected the result of call " + shown(unanswered_.front()) + " before, got none");
}

void Turns::close() {
  if (!open_) return;
  Value::Object message{{"role", "assistant"}};
  if (!open_->reasoning.empty()) message.emplace_back("reasoning", std::move(open_->reasoning));
  message.emplace_back("content", open_->content || open_->calls.empty() ? Value(open_->content.value_or("")) : Value());
  if (!open_->calls.empty()) message.emplace_back("tool_calls", std::move(open_->calls));
  messages_.push_back(std::move(message));
  open_.reset();
}

}  // namespace lapidary::serve
