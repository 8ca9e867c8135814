#include "text/schema.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "text/chat_fields.hpp"
#include "text/grammar_json.hpp"
#include "text/schema_part.hpp"

namespace lapidary::text {
namespace {

constexpr int kMaxSchemaDepth = 64;             // of schemas inside schemas
constexpr std::size_t kMaxAlternatives = 1024;  // of all anyOf and oneOf together: as many readings may go on side by side

class SchemaCompiler {
 public:
  explicit SchemaCompiler(Notation notation) : rules_(builder_, notation) {}

  Automaton json(const SchemaPart& schema) { return finish(rule_of_whole(schema)); }

  Automaton calls(const Value& tools) {
    const StateId start = builder_.state(), end = builder_.state();
    const StateId name_begin = builder_.text(start, "call:");
    builder_.end_rule(end);
    if (as_array(tools, "tools").empty()) SchemaPart(tools, "tools").reject(ErrorKind::bad_value, "at least one tool");
    for (std::size_t i = 0; i < tools.array()->size(); ++i) {
      const Value& function = object_field((*tools.array())[i], "function", item_path("tools", i));
      const std::string path = item_path("tools", i) + ".function";
      const std::string& name = string_field(function, "name", path);
      if (!rules_.can_write_key(name)) SchemaPart(*function.find("name"), path + ".name").reject(ErrorKind::unsupported, kBare);
      builder_.call(builder_.text(name_begin, name), arguments(function, path), end, 0);
    }
    return finish(start);
  }

 private:
  static constexpr const char* kBare = "a name that a call can hold: not empty, no control characters, none of :,{}[]\", "
                                       "no white space at its ends";

  StateId arguments(const Value& function, const std::string& path) {
    if (const Value* parameters = truthy_field(function, "parameters")) {
      const SchemaPart schema(*parameters, path + ".parameters");
      if (schema.types() != kObject) schema.reject(ErrorKind::unsupported, "a schema of the type object");
      return rule_of_whole(schema);
    }
    const StateId none = builder_.state();
    rules_.object(none, {});
    return none;
  }

  StateId rule_of_whole(const SchemaPart& schema) {
    root_ = &schema;
    const StateId start = rule_of_target(schema);
    while (!pending_.empty()) {
      const auto [part, at] = std::move(pending_.back());
      pending_.pop_back();
      write(part, at, 0);
    }
    wholes_.emplace_back(schema, start);
    return start;
  }

  Automaton finish(StateId start) {
    Automaton automaton = builder_.finish(start);
    for (const auto& [schema, rule] : wholes_) {
      if (automaton.states[rule].height <= kMaxNesting) continue;
      schema.reject(ErrorKind::bad_value, "a schema that some value satisfies within " + std::to_string(kMaxNesting) +
                                              " levels of nesting");
    }
    return automaton;
  }

  StateId rule_of(const SchemaPart& schema, int depth) {
    if (schema.allows_anything()) return rules_.any();
    schema.check();
    if (const auto reference = schema.find("$ref")) return rule_of_target(target_of(*reference, *root_));
    const StateId at = builder_.state();
    write(schema, at, depth + 1);
    return at;
  }

  // What is referred to is compiled once, and later: it may refer to itself.
  StateId rule_of_target(const SchemaPart& target) {
    const auto [known, is_new] = targets_.try_emplace(&target.value(), 0);
    if (is_new) {
      known->second = builder_.state();
      pending_.emplace_back(target, known->second);
    }
    return known->second;
  }

  void write(const SchemaPart& schema, StateId at, int depth) {
    if (depth > kMaxSchemaDepth) {
      schema.reject(ErrorKind::unsupported, "schemas inside schemas at most " + std::to_string(kMaxSchemaDepth) + " deep");
    }
    schema.check();
    if (const bool* allowed = schema.value().boolean(); allowed && !*allowed) return;  // no value
    if (schema.allows_anything() || schema.find("$ref")) {
      builder_.empty(at, rule_of(schema, depth));
    } else if (const auto all = schema.find("allOf")) {
      const std::size_t count = all->array("a list of schemas").size();
      if (count == 0) all->reject(ErrorKind::bad_value, "at least one schema");
      if (count == 1) builder_.empty(at, rule_of(all->at(0), depth));
      else write_object(merged(*all), at, depth);
    } else if (const auto any = schema.find("anyOf")) {
      write_alternatives(*any, at, depth);
    } else if (const auto one = schema.find("oneOf")) {
      write_alternatives(*one, at, depth);
      if (!exclude_each_other(*one, *root_)) {
        one->reject(ErrorKind::unsupported,
                    "alternatives that exclude each other by type, const, enum or a required property (or anyOf)");
      }
    } else if (const auto values = schema.values()) {
      std::vector<std::string> texts;
      for (const Value& value : *values) {
        if (!rules_.can_write(value)) schema.reject(ErrorKind::unsupported, std::string("every key in it ") + kBare);
        texts.push_back(rules_.written(value));
      }
      rules_.texts(at, texts);
    } else {
      write_types(schema, at, depth);
    }
  }

  // Objects that must all hold are one with the properties of all.
  SchemaPart merged(const SchemaPart& list) {
    constexpr const char* kExpected = "one schema, or objects with properties and required alone, no property in two";
    Value::Object properties;
    Value::Array required;
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i < list.value().array()->size(); ++i) {
      SchemaPart part = list.at(i);
      part.check();
      for (int steps = 0; part.find("$ref"); ++steps) {
        if (steps == kMaxSchemaDepth) list.reject(ErrorKind::unsupported, kExpected);
        part = target_of(*part.find("$ref"), *root_);
        part.check();
      }
      if (!part.value().object() || part.types() != kObject) list.reject(ErrorKind::unsupported, kExpected);
      for (const auto& [key, child] : *part.value().object())
        if (key == "additionalProperties" || key == "const" || key == "enum") list.reject(ErrorKind::unsupported, kExpected);
      if (const auto own = part.find("properties"))
        for (const auto& [name, value] : own->object("an object of schemas")) {
          if (!names.insert(name).second) list.reject(ErrorKind::unsupported, kExpected);
          properties.emplace_back(name, value);
        }
      if (const auto own = part.find("required"))
        for (const Value& name : own->array("a list of names")) required.push_back(name);
    }
    merged_.push_back(Value::Object{{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}});
    return {merged_.back(), list.path()};
  }

  void write_alternatives(const SchemaPart& list, StateId at, int depth) {
    const std::size_t count = list.array("a list of schemas").size();
    alternatives_ += count;
    if (count == 0) list.reject(ErrorKind::bad_value, "at least one schema");
    if (alternatives_ > kMaxAlternatives) {
      list.reject(ErrorKind::unsupported, "at most " + std::to_string(kMaxAlternatives) + " alternatives in the whole schema");
    }
    for (std::size_t i = 0; i < count; ++i) builder_.empty(at, rule_of(list.at(i), depth));
  }

  void write_types(const SchemaPart& schema, StateId at, int depth) {
    JsonTypes types = schema.types();
    if (types & kNumber) types &= ~kInteger;  // a number's rule has the whole ones too
    const bool several = std::popcount(types) > 1;
    for (JsonTypes left = types; left != 0; left &= left - 1) {
      StateId state = at;
      if (several) builder_.empty(at, state = builder_.state());
      switch (left & -left) {
        case kNull: rules_.null(state); break;
        case kBoolean: rules_.boolean(state); break;
        case kInteger: write_integer(schema, state); break;
        case kNumber: write_number(schema, state); break;
        case kString: write_string(schema, state); break;
        case kArray: write_array(schema, state, depth); break;
        case kObject: write_object(schema, state, depth); break;
      }
    }
  }

  void write_string(const SchemaPart& schema, StateId at) {
    const auto pattern = schema.find("pattern"), format = schema.find("format");
    const std::string_view shape = format && format->value().string() ? pattern_of_format(*format->value().string()) : "";
    if (!pattern && shape.empty()) return rules_.string(at, schema.count("minLength").value_or(0), schema.count("maxLength"));
    for (const char* key : {"minLength", "maxLength"})
      if (const auto limit = schema.find(key)) limit->reject(ErrorKind::unsupported, "no such keyword beside pattern or format");
    if (pattern && !shape.empty()) pattern->reject(ErrorKind::unsupported, "no such keyword beside format");
    if (pattern && !pattern->value().string()) pattern->reject(ErrorKind::wrong_type, "a text");
    std::string fault;
    const Pattern parsed = parse_pattern(pattern ? *pattern->value().string() : shape, fault);
    const SchemaPart& given = pattern ? *pattern : *format;
    if (!fault.empty()) given.reject(ErrorKind::unsupported, "a regular expression with " + fault);
    if (!rules_.string_like(at, parsed)) given.reject(ErrorKind::unsupported, "a regular expression that is smaller when written out");
  }

  void write_number(const SchemaPart& schema, StateId at) {
    for (const char* key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
      if (const auto bound = schema.find(key)) bound->reject(ErrorKind::unsupported, "a bound of the type integer only");
    }
    rules_.number(at);
  }

  void write_integer(const SchemaPart& schema, StateId at) {
    std::int64_t least = -kMaxInteger, most = kMaxInteger;
    // The whole number at a bound or next to it, rounded by `round`, at most one beyond the largest.
    const auto bound = [&](const char* key, double (*round)(double)) -> std::optional<std::int64_t> {
      const auto part = schema.find(key);
      if (!part) return std::nullopt;
      constexpr std::int64_t kBeyond = kMaxInteger + 1;
      if (const std::int64_t* number = part->value().integer()) return std::clamp(*number, -kBeyond, kBeyond);
      if (!part->value().real()) part->reject(ErrorKind::wrong_type, "a number");
      return static_cast<std::int64_t>(round(std::clamp(*part->value().real(), -1e18, 1e18)));
    };
    if (const auto b = bound("minimum", std::ceil)) least = std::max(least, *b);
    if (const auto b = bound("exclusiveMinimum", std::floor)) least = std::max(least, *b + 1);
    if (const auto b = bound("maximum", std::floor)) most = std::min(most, *b);
    if (const auto b = bound("exclusiveMaximum", std::ceil)) most = std::min(most, *b - 1);
    if (const auto of = schema.find("multipleOf")) return write_multiple(*of, at, least, most);
    rules_.integer(at, least, most);
  }

  // Those between bounds one by one.
  void write_multiple(const SchemaPart& part, StateId at, std::int64_t least, std::int64_t most) {
    const std::int64_t* of = part.value().integer();
    if (!of) part.reject(part.value().real() ? ErrorKind::unsupported : ErrorKind::wrong_type, "a whole number");
    if (*of < 1) part.reject(ErrorKind::bad_value, "a number above 0");
    if (least == -kMaxInteger && most == kMaxInteger) {
      if (*of > kMaxMultipleOf) part.reject(ErrorKind::unsupported, "at most " + std::to_string(kMaxMultipleOf) + " without bounds");
      return rules_.multiple(at, *of);
    }
    const std::int64_t first = least >= 0 ? (least + *of - 1) / *of : -(-least / *of), last = most >= 0 ? most / *of : -((-most + *of - 1) / *of);
    if (last - first >= static_cast<std::int64_t>(kMaxAlternatives))
      part.reject(ErrorKind::unsupported, "at most " + std::to_string(kMaxAlternatives) + " multiples between bounds");
    std::vector<std::string> texts;
    for (std::int64_t i = first; i <= last; ++i) texts.push_back(std::to_string(i * *of));
    if (!texts.empty()) rules_.texts(at, texts);
  }

  void write_array(const SchemaPart& schema, StateId at, int depth) {
    ArrayRule rule;
    rule.least = schema.count("minItems").value_or(0);
    rule.most = schema.count("maxItems");
    if (const auto prefix = schema.find("prefixItems")) {
      for (std::size_t i = 0; i < prefix->array("a list of schemas").size(); ++i) {
        rule.prefix.push_back(rule_of(prefix->at(i), depth));
      }
    }
    if (const auto items = schema.find("items")) {
      rule.rest = rule_of(*items, depth);
    } else if (rule.prefix.empty()) {
      rule.rest = rules_.any();
    }
    rules_.array(at, rule);
  }

  void write_object(const SchemaPart& schema, StateId at, int depth) {
    ObjectRule rule;
    const auto properties = schema.find("properties"), extra = schema.find("additionalProperties");
    if (extra ? !extra->value().boolean() || *extra->value().boolean() : !properties) {
      rule.extra = extra ? rule_of(*extra, depth) : rules_.any();
    }

    std::unordered_set<std::string_view> required, declared;
    const auto list = schema.find("required");
    for (std::size_t i = 0; list && i < list->array("a list of names").size(); ++i) {
      const std::string* name = list->at(i).value().string();
      if (!name) list->at(i).reject(ErrorKind::wrong_type, "a name");
      required.insert(*name);
    }
    if (properties) {
      for (const auto& [name, value] : properties->object("an object of schemas")) {
        if (!rules_.can_write_key(name)) properties->at(name, value).reject(ErrorKind::unsupported, kBare);
        rule.properties.push_back({name, rule_of(properties->at(name, value), depth), required.contains(name)});
        declared.insert(name);
      }
    }
    // A required property that is not declared is an additional one; where there is none, nothing can be its value.
    const StateId undeclared = rule.extra ? *rule.extra : extra ? builder_.state() : rules_.any();
    for (std::size_t i = 0; list && i < list->value().array()->size(); ++i) {
      const std::string& name = *list->at(i).value().string();
      if (!declared.insert(name).second) continue;
      if (!rules_.can_write_key(name)) list->at(i).reject(ErrorKind::unsupported, kBare);
      rule.properties.push_back({name, undeclared, true});
    }
    rules_.object(at, rule);
  }

  const SchemaPart* root_ = nullptr;  // the whole that is being compiled
  AutomatonBuilder builder_;
  JsonRules rules_;
  std::unordered_map<const Value*, StateId> targets_;
  std::vector<std::pair<SchemaPart, StateId>> pending_;
  std::vector<std::pair<SchemaPart, StateId>> wholes_;
  std::size_t alternatives_ = 0;
  std::deque<Value> merged_;          // parts point into it
};

}  // namespace

Automaton compile_schema(const Value& schema) { return SchemaCompiler(Notation::json).json(SchemaPart(schema, "")); }

Automaton compile_calls(const Value& tools) { return SchemaCompiler(Notation::call).calls(tools); }

}  // namespace lapidary::text
