#include "text/chat.hpp"

#include "text/chat_fields.hpp"
#include "text/chat_format.hpp"
#include "text/chat_tools.hpp"
#include "text/whitespace.hpp"

namespace lapidary::text {

namespace {

constexpr std::string_view kEndTurn = "<turn|>\n";
constexpr std::string_view kOpenThought = "<|channel>thought\n";

// The text without the thoughts in it, also without one that was never closed.
std::string without_thoughts(std::string_view text) {
  constexpr std::string_view kOpen = "<|channel>", kClose = "<channel|>";
  std::string kept;
  for (;;) {
    const std::size_t close = text.find(kClose);
    const std::string_view piece = text.substr(0, close);
    kept += piece.substr(0, piece.find(kOpen));
    if (close == text.npos) return kept;
    text.remove_prefix(close + kClose.size());
  }
}

// The marker for a part of a message that is not text; empty for kinds the model does not know.
std::string_view placeholder(const Value& part) {
  const Value* type = part.find("type");
  if (!type) return "";
  if (*type == Value("image") || *type == Value("image_url")) return "<|image|>";
  if (*type == Value("audio") || *type == Value("input_audio")) return "<|audio|>";
  if (*type == Value("video")) return "<|video|>";
  return "";
}

bool is_text(const Value& part) {
  const Value* type = part.find("type");
  return type && *type == Value("text");
}

class Renderer {
 public:
  Renderer(const Template& with, const RenderOptions& options) : with_(with), options_(options) {}

  std::vector<Span> render(const Value& messages, const Value& tools) {
    read(messages);
    out_.markup("<bos>");
    system_turn(tools);
    find_last_user();
    for (std::size_t i = first_; i < messages_.size(); ++i)
      if (messages_[i].role != "tool") message(i);
    if (options_.add_generation_prompt) generation_prompt();
    return out_.take();
  }

 private:
  struct Message {
    const Value* value;
    std::string_view role;
    std::string path;
  };

  // What the last message ended with: it decides how generation continues.
  enum class End : std::uint8_t { other, call, result };

  void read(const Value& messages) {
    for (const Value& value : as_array(messages, "messages")) {
      const std::string path = item_path("messages", messages_.size());
      if (!value.object()) reject(path, "an object", &value);
      messages_.push_back({&value, string_field(value, "role", path), path});
    }
  }

  void system_turn(const Value& tools) {
    const bool given = !messages_.empty() && (messages_[0].role == "system" || messages_[0].role == "developer");
    if (!options_.enable_thinking && !tools.truthy() && !given) return;
    out_.markup("<|turn>system\n");
    if (options_.enable_thinking) out_.markup("<|think|>\n");
    if (given) {
      system_text(messages_[0]);
      first_ = 1;
    }
    if (tools.truthy()) {
      std::size_t count = 0;
      for (const Value& tool : as_array(tools, "tools")) {
        out_.markup("<|tool>");
        write_declaration(out_, tool, item_path("tools", count++), with_.revision);
        out_.markup("<tool|>");
      }
    }
    out_.markup(kEndTurn);
  }

  void system_text(const Message& message) {
    const Value* content = message.value->find("content");
    if (!content) return;
    if (content->string() || with_.revision == Revision::april) {
      out_.quote(strip(printed(*content)));
    } else if (!content->is_null()) {
      for (const Value* part : parts(*content, message.path)) {
        if (const Value* text = part->find("text")) out_.quote(strip(as_string(*text, message.path + ".content: text")));
        out_.markup(" ");
      }
    }
  }

  void find_last_user() {
    for (std::size_t i = first_; i < messages_.size(); ++i)
      if (messages_[i].role == "user") after_last_user_ = i + 1;
  }

  void message(std::size_t i) {
    const Message& message = messages_[i];
    const std::string_view role = message.role == "assistant" ? "model" : message.role;
    if (role != "model" || previous_role_ != "assistant") {
      out_.markup("<|turn>");
      out_.quote(role);
      out_.markup("\n");
    }
    previous_role_ = message.role;
    end_ = End::other;
    thought(i);
    const Value* calls = truthy_field(*message.value, "tool_calls");
    if (calls) tool_calls(*calls, message.path + ".tool_calls");
    const bool answered = results(i, calls);
    const bool has_content = content(message, role == "model");
    close(i, calls, answered, has_content, role == "model");
  }

  void thought(std::size_t i) {
    const Value& message = *messages_[i].value;
    const Value* text = truthy_field(message, "reasoning");
    if (!text) text = truthy_field(message, "reasoning_content");
    const bool is_recent = i >= after_last_user_;
    const bool calls = truthy_field(message, "tool_calls");
    const bool kept = with_.revision == Revision::canonical ? is_recent || (options_.preserve_thinking && calls)
                                                            : is_recent && calls;
    if (!text || !kept) return;
    out_.markup(kOpenThought);
    out_.quote(as_string(*text, messages_[i].path + ".reasoning"));
    out_.markup("\n<channel|>");
  }

  void tool_calls(const Value& calls, const std::string& path) {
    std::size_t count = 0;
    for (const Value& call : as_array(calls, path)) {
      const std::string call_path = item_path(path, count++);
      const Value& function = object_field(call, "function", call_path);
      out_.markup("<|tool_call>call:");
      out_.quote(string_field(function, "name", call_path + ".function"));
      out_.markup("{");
      const Value* arguments = function.find("arguments");
      if (arguments && arguments->object()) {
        write_fields(out_, *arguments->object(), Keys::bare, with_.revision);
      } else if (arguments && arguments->string() && with_.revision != Revision::canonical) {
        out_.quote(*arguments->string());
      } else if (arguments && !arguments->is_null()) {
        reject(call_path + ".function.arguments", "an object", arguments);
      }
      out_.markup("}<tool_call|>");
    }
    end_ = End::call;
  }

  // The results of a message's calls, its own or those of the tool messages after it. Were there any?
  bool results(std::size_t i, const Value* calls) {
    const Message& message = messages_[i];
    bool answered = false;
    if (const Value* responses = truthy_field(*message.value, "tool_responses")) {
      const std::string path = message.path + ".tool_responses";
      std::size_t count = 0;
      for (const Value& response : as_array(*responses, path)) {
        const std::string response_path = item_path(path, count++);
        const Value* body = response.find("response");
        if (!body) reject(response_path + ".response", "a value", body);
        result(response.find("name") ? string_field(response, "name", response_path) : "unknown", *body);
        answered = true;
      }
    } else if (calls) {
      for (std::size_t k = i + 1; k < messages_.size() && messages_[k].role == "tool"; ++k) {
        tool_message(messages_[k], *calls->array());
        answered = true;
      }
    }
    if (answered) end_ = End::result;
    return answered;
  }

  void tool_message(const Message& message, const Value::Array& calls) {
    const std::string name = name_of_result(message, calls);
    const Value* content = message.value->find("content");
    if (!content || content->is_null() || content->string()) {
      result(name, content ? *content : Value());
    } else if (content->array()) {
      std::string text;
      for (const Value* part : parts(*content, message.path))
        if (is_text(*part)) text += string_field(*part, "text", message.path + ".content");
      result(name, text);
      for (const Value& part : *content->array()) out_.markup(placeholder(part));
    } else if (content->object()) {
      reject(message.path + ".content", "a string or a list", content);
    } else {
      result(name, *content);
    }
  }

  // Absent ids match absent ids: then every result goes by the name of the last call.
  static std::string name_of_result(const Message& message, const Value::Array& calls) {
    static const Value kAbsent;
    const auto field = [](const Value& of, std::string_view key) -> const Value& {
      const Value* found = of.find(key);
      return found ? *found : kAbsent;
    };
    const Value& id = field(*message.value, "tool_call_id");
    for (auto call = calls.rbegin(); call != calls.rend(); ++call)
      if (field(*call, "id") == id) return *call->find("function")->find("name")->string();
    return truthy_field(*message.value, "name") ? string_field(*message.value, "name", message.path) : "unknown";
  }

  void result(std::string_view name, const Value& body) {
    out_.markup("<|tool_response>response:");
    out_.quote(name);
    out_.markup("{");
    if (body.object()) {
      write_fields(out_, *body.object(), Keys::bare, with_.revision);
    } else {
      out_.markup("value:");
      write_value(out_, body, Keys::bare, with_.revision);
    }
    out_.markup("}<tool_response|>");
  }

  // Is there something to see?
  bool content(const Message& message, bool is_model) {
    const Value* content = message.value->find("content");
    if (!content || content->is_null()) return false;
    if (const std::string* text = content->string()) return plain_text(*text, is_model);
    bool any = false;
    for (const Value* part : parts(*content, message.path)) {
      if (is_text(*part)) {
        any |= plain_text(string_field(*part, "text", message.path + ".content"), is_model);
      } else if (const std::string_view marker = placeholder(*part); !marker.empty()) {
        out_.markup(marker);
        end_ = End::other;
        any = true;
      }
    }
    return any;
  }

  bool plain_text(const std::string& text, bool is_model) {
    const std::string kept(strip(is_model ? without_thoughts(text) : text));
    out_.quote(kept);
    return !kept.empty();
  }

  void close(std::size_t i, bool called, bool answered, bool has_content, bool is_model) {
    if (end_ == End::call) {
      out_.markup("<|tool_response>");  // to be followed by the result
      return;
    }
    if (with_.revision == Revision::canonical) {
      std::size_t next = i + 1;
      while (next < messages_.size() && messages_[next].role == "tool") ++next;
      const bool last = next == messages_.size();
      if (is_model && !last && messages_[next].role == "assistant" && (!called || answered)) return;
      if (answered && !has_content && last) return;
    } else {
      const bool empty = with_.revision == Revision::april ? !truthy_field(*messages_[i].value, "content") : !has_content;
      if (answered && empty) return;
    }
    out_.markup(kEndTurn);
  }

  void generation_prompt() {
    if (end_ == End::other) {
      out_.markup("<|turn>model\n");
      if (with_.family == Family::large && !options_.enable_thinking) out_.markup("<|channel>thought\n<channel|>");
    } else if (end_ == End::result && options_.enable_thinking && with_.revision == Revision::canonical) {
      out_.markup(kOpenThought);
    }
  }

  static std::vector<const Value*> parts(const Value& content, const std::string& path) {
    if (!content.array()) reject(path + ".content", "a string or a list", &content);
    std::vector<const Value*> parts;
    for (const Value& part : *content.array()) {
      if (!part.object()) reject(item_path(path + ".content", parts.size()), "an object", &part);
      parts.push_back(&part);
    }
    return parts;
  }

  const Template with_;
  const RenderOptions options_;
  PromptWriter out_;
  std::vector<Message> messages_;
  std::size_t first_ = 0;            // after the one that went into the system turn
  std::size_t after_last_user_ = 0;  // messages from here on answer the last user message
  std::string_view previous_role_;
  End end_ = End::other;
};

}  // namespace

std::vector<Span> render(const Value& messages, const Value& tools, const Template& with, const RenderOptions& options) {
  return Renderer(with, options).render(messages, tools);
}

std::string joined(std::span<const Span> spans) {
  std::string text;
  for (const Span& span : spans) text += span.text;
  return text;
}

bool ends_inside_thought(std::span<const Span> prompt) {
  return !prompt.empty() && prompt.back().specials == Specials::recognise && prompt.back().text.ends_with(kOpenThought);
}

}  // namespace lapidary::text
