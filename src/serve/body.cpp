#include "serve/body.hpp"

#include <algorithm>

#include "checkpoint/error.hpp"
#include "serve/fields.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr int kMaxLevels = 64;

// The parser takes more.
bool is_deeper(const Value& value, int levels) {
  const auto below = [&](const Value& inner) { return is_deeper(inner, levels - 1); };
  if (value.array()) return levels == 0 || std::ranges::any_of(*value.array(), below);
  return value.object() && (levels == 0 || std::ranges::any_of(*value.object(), below, &std::pair<std::string, Value>::second));
}

Value parse(std::string_view json, const std::string& where, const std::string& path) {
  const auto refuse = [&](std::string_view what) -> Value {
    throw Refusal{.code = path.empty() ? "" : kInvalidValue, .message = "[" + where + "] " + std::string(what), .param = path};
  };
  Value value;
  try {
    value = text::parse_json(json, where);
  } catch (const Error& error) {
    refuse(error.what);
  }
  if (!value.object()) refuse("expected an object, got " + shown(value));
  if (is_deeper(value, kMaxLevels)) refuse("expected at most " + std::to_string(kMaxLevels) + " levels, got more");
  return value;
}

}  // namespace

Value parse_body(std::string_view json) { return parse(json, "body", ""); }

Value parse_object(std::string_view json, const std::string& path) { return parse(json, path, path); }

}  // namespace lapidary::serve
