// JSON Schema by definition: does an instance satisfy a schema? For the keywords that grammars support, with the standard's own
// defaults: other properties are allowed unless it says otherwise, and a keyword says nothing about other types.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/value.hpp"

namespace lapidary::reference {

using text::Value;

class JsonSchema {
 public:
  explicit JsonSchema(const Value& root) : root_(root) {}

  bool accepts(const Value& instance) const { return satisfies(root_, instance); }

 private:
  static bool is_number(const Value& v) { return v.integer() || v.real(); }
  static double number(const Value& v) { return v.integer() ? static_cast<double>(*v.integer()) : *v.real(); }

  static bool equal(const Value& a, const Value& b) {
    if (is_number(a) && is_number(b)) return number(a) == number(b);
    if (a.array() && b.array()) {
      if (a.array()->size() != b.array()->size()) return false;
      for (std::size_t i = 0; i < a.array()->size(); ++i)
        if (!equal((*a.array())[i], (*b.array())[i])) return false;
      return true;
    }
    if (a.object() && b.object()) {
      if (a.object()->size() != b.object()->size()) return false;
      for (const auto& [key, value] : *a.object())
        if (!b.find(key) || !equal(value, *b.find(key))) return false;
      return true;
    }
    return a == b;
  }

  static bool is(const Value& v, std::string_view type) {
    if (type == "null") return v.is_null();
    if (type == "boolean") return v.boolean();
    if (type == "number") return is_number(v);
    if (type == "integer") return is_number(v) && std::floor(number(v)) == number(v);
    if (type == "string") return v.string();
    if (type == "array") return v.array();
    return type == "object" && v.object();
  }

  static std::size_t characters(std::string_view utf8) {
    std::size_t count = 0;
    for (const char c : utf8) count += (c & 0xc0) != 0x80;
    return count;
  }

  bool satisfies(const Value& schema, const Value& v) const {
    if (schema.boolean()) return *schema.boolean();
    const auto get = [&](const char* key) { return schema.find(key); };
    const auto count_of = [&](const char* key, auto what) {
      int count = 0;
      for (const Value& one : *get(key)->array()) count += what(one);
      return count;
    };
    const auto satisfied = [&](const Value& one) { return satisfies(one, v); };

    if (const Value* ref = get("$ref")) {
      const std::string path = *ref->string();
      const Value& target = path == "#" ? root_ : *root_.find("$defs")->find(path.substr(std::string("#/$defs/").size()));
      // A schema that refers back to itself for the same value says nothing new.
      const std::pair question{&target, &v};
      if (std::ranges::find(open_questions_, question) != open_questions_.end()) return false;
      open_questions_.push_back(question);
      const bool answer = satisfies(target, v);
      open_questions_.pop_back();
      if (!answer) return false;
    }
    if (get("allOf") && count_of("allOf", satisfied) != static_cast<int>(get("allOf")->array()->size())) return false;
    if (get("anyOf") && count_of("anyOf", satisfied) == 0) return false;
    if (get("oneOf") && count_of("oneOf", satisfied) != 1) return false;
    if (get("const") && !equal(*get("const"), v)) return false;
    if (get("enum") && count_of("enum", [&](const Value& one) { return equal(one, v); }) == 0) return false;
    if (const Value* type = get("type")) {
      if (type->string() && !is(v, *type->string())) return false;
      if (type->array() && count_of("type", [&](const Value& one) { return is(v, *one.string()); }) == 0) return false;
    }
    if (is_number(v)) {
      if (get("minimum") && number(v) < number(*get("minimum"))) return false;
      if (get("maximum") && number(v) > number(*get("maximum"))) return false;
      if (get("exclusiveMinimum") && number(v) <= number(*get("exclusiveMinimum"))) return false;
      if (get("exclusiveMaximum") && number(v) >= number(*get("exclusiveMaximum"))) return false;
    }
    const auto within = [&](std::size_t size, const char* least, const char* most) {
      return !(get(least) && size < static_cast<std::size_t>(*get(least)->integer())) &&
             !(get(most) && size > static_cast<std::size_t>(*get(most)->integer()));
    };
    if (v.string() && !within(characters(*v.string()), "minLength", "maxLength")) return false;
    return (!v.array() || (within(v.array()->size(), "minItems", "maxItems") && items_satisfy(schema, *v.array()))) &&
           (!v.object() || fields_satisfy(schema, v));
  }

  bool items_satisfy(const Value& schema, const Value::Array& items) const {
    const Value* prefix = schema.find("prefixItems");
    const Value* rest = schema.find("items");
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool in_prefix = prefix && i < prefix->array()->size();
      if (in_prefix && !satisfies((*prefix->array())[i], items[i])) return false;
      if (!in_prefix && rest && !satisfies(*rest, items[i])) return false;
    }
    return true;
  }

  bool fields_satisfy(const Value& schema, const Value& object) const {
    if (const Value* required = schema.find("required")) {
      for (const Value& name : *required->array())
        if (!object.find(*name.string())) return false;
    }
    const Value* properties = schema.find("properties");
    const Value* extra = schema.find("additionalProperties");
    for (const auto& [name, value] : *object.object()) {
      const Value* declared = properties ? properties->find(name) : nullptr;
      const Value* rule = declared ? declared : extra;
      if (rule && !satisfies(*rule, value)) return false;
    }
    return true;
  }

  const Value& root_;
  mutable std::vector<std::pair<const Value*, const Value*>> open_questions_;  // references being followed
};

}  // namespace lapidary::reference
