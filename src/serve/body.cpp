#include "serve/body.hpp"

#include "checkpoint/error.hpp"
#include "serve/fields.hpp"
#include "text/utf8.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr int kMaxLevels = 64;

// The parser takes more levels, and writes a lone surrogate as three bytes that are no UTF-8.
std::string_view fault_of(const Value& value, int levels_left) {
  if (const std::string* text = value.string()) return text::is_utf8(*text) ? "" : "expected pairs of surrogates, got a lone one";
  if (!value.array() && !value.object()) return "";
  if (levels_left == 0) return "expected at most 64 levels, got more";
  std::string_view fault;
  if (const Value::Array* items = value.array()) {
    for (auto item = items->begin(); fault.empty() && item != items->end(); ++item) fault = fault_of(*item, levels_left - 1);
    return fault;
  }
  for (auto field = value.object()->begin(); fault.empty() && field != value.object()->end(); ++field) {
    fault = fault_of(Value(field->first), levels_left - 1);
    if (fault.empty()) fault = fault_of(field->second, levels_left - 1);
  }
  return fault;
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
  if (const std::string_view fault = fault_of(value, kMaxLevels); !fault.empty()) refuse(fault);
  return value;
}

}  // namespace

Value parse_body(std::string_view json) { return parse(json, "body", ""); }

Value parse_object(std::string_view json, const std::string& path) { return parse(json, path, path); }

}  // namespace lapidary::serve
