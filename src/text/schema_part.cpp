#include "text/schema_part.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "checkpoint/json.hpp"
#include "text/pattern.hpp"

namespace lapidary::text {
namespace {

using Names = std::span<const std::string_view>;

bool contains(Names names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

constexpr std::string_view kAnnotations[] = {
    "$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly"};
// Each of them alone, beside annotations.
constexpr std::string_view kCombinations[] = {"$ref", "allOf", "anyOf", "oneOf"};
constexpr std::string_view kValues[] = {"type", "const", "enum"};
constexpr std::string_view kNumeric[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
constexpr std::string_view kText[] = {"minLength", "maxLength", "pattern"};
constexpr std::string_view kItems[] = {"items", "prefixItems", "minItems", "maxItems"};
constexpr std::string_view kFields[] = {"properties", "required", "additionalProperties"};

struct Group {
  Names keywords;
  JsonTypes suggests;
};
constexpr Group kGroups[] = {{kNumeric, kInteger}, {kText, kString}, {kItems, kArray}, {kFields, kObject}};

constexpr std::pair<std::string_view, JsonTypes> kTypeNames[] = {
    {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kNumber | kInteger},
    {"string", kString}, {"array", kArray},     {"object", kObject}};

JsonTypes named_type(const SchemaPart& name) {
  const std::string* text = name.value().string();
  for (const auto& [known, types] : kTypeNames) {
    if (text && *text == known) return types;
  }
  name.reject(text ? ErrorKind::bad_value : ErrorKind::wrong_type,
              "null, boolean, integer, number, string, array, object or a list of these");
}

std::string unescaped(std::string_view pointer) {
  std::string name;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    const bool escape = pointer[i] == '~' && i + 1 < pointer.size();
    name += !escape ? pointer[i] : pointer[++i] == '1' ? '/' : '~';
  }
  return name;
}

}  // namespace

std::optional<SchemaPart> SchemaPart::find(std::string_view key) const {
  const Value* child = value_->find(key);
  if (!child) return std::nullopt;
  return at(key, *child);
}

SchemaPart SchemaPart::at(std::string_view key, const Value& child) const {
  return {child, path_.empty() ? printable(key) : path_ + "." + printable(key)};
}

SchemaPart SchemaPart::at(std::size_t index) const {
  return {(*value_->array())[index], path_ + "[" + std::to_string(index) + "]"};
}

void SchemaPart::reject(ErrorKind kind, std::string_view expected) const {
  fail(kind, "schema", (path_.empty() ? "the whole" : path_) + ", expected " + std::string(expected) + ", got " +
                           printable(to_json(*value_)));
}

const Value::Array& SchemaPart::array(std::string_view expected) const {
  if (!value_->array()) reject(ErrorKind::wrong_type, expected);
  return *value_->array();
}

const Value::Object& SchemaPart::object(std::string_view expected) const {
  if (!value_->object()) reject(ErrorKind::wrong_type, expected);
  return *value_->object();
}

std::optional<std::uint64_t> SchemaPart::count(std::string_view key) const {
  const auto part = find(key);
  if (!part) return std::nullopt;
  const std::int64_t* number = part->value().integer();
  if (!number) part->reject(ErrorKind::wrong_type, "a whole number");
  if (*number < 0) part->reject(ErrorKind::bad_value, "a number that is not negative");
  return static_cast<std::uint64_t>(*number);
}

void SchemaPart::check() const {
  if (value_->boolean()) return;
  std::string_view alone;  // a keyword with which only some go together
  Names beside;
  const auto& keywords = object("a schema: an object, true or false");
  for (const auto& [key, child] : keywords) {
    if (contains(kCombinations, key)) {
      alone = key;
      beside = {};
      break;
    }
    if (key == "const" || key == "enum") {
      alone = key;
      beside = kValues;
    }
  }
  for (const auto& [key, child] : keywords) {
    if (contains(kAnnotations, key) || key == alone || contains(beside, key)) continue;
    const SchemaPart part = at(key, child);
    const auto has_key = [&](const Group& group) { return contains(group.keywords, key); };
    const bool known = contains(kCombinations, key) || contains(kValues, key) || std::ranges::any_of(kGroups, has_key);
    if (key == "format") {
      const std::string* name = child.string();
      if (name && (*name == "int64" || *name == "float" || *name == "double")) continue;
      if (name && !pattern_of_format(*name).empty() && alone.empty()) continue;
      part.reject(ErrorKind::unsupported,
                  "date, time, date-time, uuid, email or ipv4 (or int64, float or double, which change nothing)");
    }
    if (!known) part.reject(ErrorKind::unsupported, "a supported keyword (see docs/json-schema.md)");
    if (!alone.empty()) part.reject(ErrorKind::unsupported, "no such keyword beside " + std::string(alone));
  }
}

bool SchemaPart::allows_anything() const {
  if (const bool* flag = value_->boolean()) return *flag;
  const Value::Object* keywords = value_->object();
  return keywords && std::ranges::all_of(*keywords, [](const auto& field) { return contains(kAnnotations, field.first); });
}

JsonTypes SchemaPart::types() const {
  JsonTypes types = 0;
  if (const auto type = find("type")) {
    if (!type->value().array()) return named_type(*type);
    if (type->value().array()->empty()) type->reject(ErrorKind::bad_value, "at least one type");
    for (std::size_t i = 0; i < type->value().array()->size(); ++i) types |= named_type(type->at(i));
    return types;
  }
  for (const Group& group : kGroups) {
    for (const std::string_view key : group.keywords) {
      if (value_->find(key)) types |= group.suggests;
    }
  }
  return types != 0 ? types : kAllTypes;
}

std::optional<std::vector<Value>> SchemaPart::values() const {
  const Value* constant = value_->find("const");
  const auto listed = find("enum");
  if (!constant && !listed) return std::nullopt;
  std::vector<Value> values = listed ? listed->array("a list of values") : std::vector<Value>{*constant};
  const JsonTypes allowed = find("type") ? types() : kAllTypes;
  std::erase_if(values, [&](const Value& value) {
    return (types_of(value) & allowed) == 0 || (constant && to_json(value) != to_json(*constant));
  });
  return values;
}

JsonTypes types_of(const Value& instance) {
  if (instance.boolean()) return kBoolean;
  if (instance.integer()) return kInteger | kNumber;
  if (const double* number = instance.real()) return std::floor(*number) == *number ? kInteger | kNumber : kNumber;
  if (instance.string()) return kString;
  if (instance.array()) return kArray;
  return instance.object() ? kObject : kNull;
}

SchemaPart target_of(const SchemaPart& reference, const SchemaPart& root) {
  constexpr std::string_view kExpected = "#, #/$defs/NAME or #/definitions/NAME of something that is there";
  const std::string* text = reference.value().string();
  if (!text) reference.reject(ErrorKind::wrong_type, kExpected);
  if (*text == "#") return root;
  for (const std::string_view group : {"$defs", "definitions"}) {
    const std::string prefix = "#/" + std::string(group) + "/";
    if (!text->starts_with(prefix)) continue;
    const auto definitions = root.find(group);
    auto found = definitions ? definitions->find(unescaped(std::string_view(*text).substr(prefix.size()))) : std::nullopt;
    if (found) return *found;
  }
  reference.reject(ErrorKind::unsupported, kExpected);
}

}  // namespace lapidary::text
