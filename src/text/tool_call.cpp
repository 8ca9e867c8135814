#include "text/tool_call.hpp"

#include <charconv>

#include "checkpoint/error.hpp"
#include "text/chat_format.hpp"
#include "text/whitespace.hpp"

namespace lapidary::text {

namespace {

// Output nested deeper than this is nonsense; what lies deeper is dropped.
constexpr int kMaxCallDepth = 128;

std::size_t digits_at(std::string_view text, std::size_t from) {
  const std::size_t end = text.find_first_not_of("0123456789", from);
  return (end == text.npos ? text.size() : end) - from;
}

// A number by the grammar of JSON.
std::optional<Value> parse_number(std::string_view word) {
  const std::size_t sign = word.starts_with('-') ? 1 : 0;
  const std::size_t whole = digits_at(word, sign);
  if (whole == 0 || (whole > 1 && word[sign] == '0')) return std::nullopt;
  std::size_t end = sign + whole;
  if (end < word.size() && word[end] == '.') {
    const std::size_t fraction = digits_at(word, end + 1);
    if (fraction == 0) return std::nullopt;
    end += 1 + fraction;
  }
  if (end < word.size() && (word[end] == 'e' || word[end] == 'E')) {
    ++end;
    if (end < word.size() && (word[end] == '+' || word[end] == '-')) ++end;
    const std::size_t exponent = digits_at(word, end);
    if (exponent == 0) return std::nullopt;
    end += exponent;
  }
  if (end != word.size()) return std::nullopt;

  if (end == sign + whole) {
    std::int64_t integer = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), integer).ec == std::errc()) return Value(integer);
  }
  if (const auto real = read_number(word)) return Value(*real);
  return std::nullopt;
}

Value bare_word(std::string_view word) {
  if (word.empty() || word == "null") return Value();
  if (word == "true") return Value(true);
  if (word == "false") return Value(false);
  if (auto number = parse_number(word)) return *number;
  return Value(word);
}

class CallParser {
 public:
  explicit CallParser(std::span<const std::string> segments) : segments_(segments) {}

  std::optional<ToolCall> call() {
    std::string_view name = strip(take_until("{"));
    constexpr std::string_view kPrefix = "call:";
    if (name.starts_with(kPrefix)) name = strip(name.substr(kPrefix.size()));
    if (name.empty() || peek() != '{') return std::nullopt;
    ++at_;
    return ToolCall{std::string(name), Value(object(1))};
  }

 private:
  // The next structural character; 0 where a string begins and at the end.
  char peek() const { return in_string() || at_ >= text().size() ? '\0' : text()[at_]; }
  bool in_string() const { return segment_ % 2 == 1 && segment_ < segments_.size(); }
  bool at_end() const { return segment_ >= segments_.size(); }
  std::string_view text() const { return at_end() ? std::string_view() : std::string_view(segments_[segment_]); }

  // Goes to the beginning of a string or to the end when the structure at hand is used up.
  void skip_space() {
    while (!at_end() && !in_string()) {
      at_ += whitespace_at_front(text().substr(at_));
      if (at_ < text().size()) return;
      next_segment();
    }
  }

  void next_segment() {
    ++segment_;
    at_ = 0;
  }

  // Structure up to one of `stops`, not beyond the segment.
  std::string_view take_until(std::string_view stops) {
    const std::string_view rest = text().substr(at_);
    const std::string_view taken = rest.substr(0, rest.find_first_of(stops));
    at_ += taken.size();
    return taken;
  }

  // Goes to the next of `stops`, over anything else.
  void skip_until(std::string_view stops) {
    while (!at_end()) {
      if (!in_string()) {
        take_until(stops);
        if (at_ < text().size()) return;
      }
      next_segment();
    }
  }

  std::string delimited_string() {
    std::string content = segments_[segment_];
    next_segment();
    return content;
  }

  // "..." as in JSON; as it is when it is not quite JSON.
  std::string json_string() {
    const std::string_view rest = text().substr(at_);
    std::size_t end = 1;
    while (end < rest.size() && rest[end] != '"') end += rest[end] == '\\' ? 2 : 1;
    if (end >= rest.size()) {
      at_ = text().size();
      return std::string(rest.substr(1));
    }
    at_ += end + 1;
    try {
      return *parse_json(rest.substr(0, end + 1), "tool call").string();
    } catch (const Error&) {
      return std::string(rest.substr(1, end - 1));
    }
  }

  std::string key() {
    if (in_string()) return delimited_string();
    if (peek() == '"') return json_string();
    return std::string(strip(take_until(":}")));
  }

  Value value(int depth) {
    skip_space();
    if (in_string()) return Value(delimited_string());
    const char c = peek();
    if (c == '"') return Value(json_string());
    if (c != '{' && c != '[') return bare_word(strip(take_until(",]}")));
    if (depth == kMaxCallDepth) {
      segment_ = segments_.size();
      return Value();
    }
    ++at_;
    return c == '{' ? Value(object(depth + 1)) : Value(array(depth + 1));
  }

  // After the opening brace.
  Value::Object object(int depth) {
    ObjectBuilder fields;
    for (skip_space(); !at_end() && peek() != '}'; skip_space()) {
      if (peek() == ',') {
        ++at_;
        continue;
      }
      std::string name = key();
      skip_until(":,}");
      if (peek() != ':') continue;  // a key without a value
      ++at_;
      skip_space();
      if (at_end()) break;
      fields.add(std::move(name), value(depth));
      skip_until(",}");
    }
    if (!at_end()) ++at_;
    return fields.take();
  }

  // After the opening bracket.
  Value::Array array(int depth) {
    Value::Array items;
    for (skip_space(); !at_end() && peek() != ']'; skip_space()) {
      if (peek() == ',') {
        ++at_;
        continue;
      }
      if (peek() == '}') break;  // the bracket is missing
      items.push_back(value(depth));
      skip_until(",]}");
    }
    if (peek() == ']') ++at_;
    return items;
  }

  std::span<const std::string> segments_;
  std::size_t segment_ = 0;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<ToolCall> parse_tool_call(std::span<const std::string> segments) { return CallParser(segments).call(); }

std::string format_call(const ToolCall& call) {
  PromptWriter out;
  out.markup("call:" + call.name + "{");
  if (call.arguments.object()) write_fields(out, *call.arguments.object(), Keys::bare, Revision::canonical);
  out.markup("}");
  return joined(out.take());
}

}  // namespace lapidary::text
