// For the grammar's tests: a vocabulary, random schemas, random instances of them, and random texts under the mask.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/random.hpp"
#include "text/grammar.hpp"
#include "text/grammar_vocabulary.hpp"

namespace lapidary::test {

using text::Value;

inline Value json(std::string_view text) { return text::parse_json(text, "test"); }

inline constexpr std::int32_t kStop = 0, kUnused = 1, kFirstByte = 2;
inline const std::vector<std::int32_t> kStopIds = {kStop};

// All bytes, and pieces such as a tokenizer learns: words, punctuation of JSON in all combinations, parts of characters.
inline std::shared_ptr<const text::Vocabulary> small_vocabulary() {
  std::vector<std::string> pieces = {"<eos>", "<unused>"};
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"{\"",
                            "\":",
                            "\": ",
                            "\": \"",
                            "\",",
                            "\", \"",
                            "\"}",
                            "\"}]",
                            "}]",
                            "}}",
                            "},",
                            "}, {",
                            "[]",
                            "[[",
                            "]]",
                            "]}",
                            "{}",
                            "[{",
                            "[\"",
                            "\\\"",
                            "\\n",
                            "\\u",
                            "\\u00",
                            "\\ud8",
                            "3d\\ude",
                            "00\"",
                            "true",
                            "false",
                            "null",
                            "tru",
                            "e,",
                            "l}",
                            "10",
                            "00",
                            "-1",
                            ".5",
                            "1.",
                            "e+",
                            "e-1",
                            "5,",
                            "7]",
                            "9}",
                            ", ",
                            ",\n",
                            "\n",
                            "\n  ",
                            "\n\n",
                            "    ",
                            "  ",
                            "\t\t",
                            "\n\t",
                            "a",
                            "b",
                            "name",
                            "na",
                            "me\"",
                            "ame",
                            "\"name",
                            "kind",
                            "the",
                            "theory",
                            "es",
                            "hello world",
                            "e\xcc\x81",
                            "\xc3\xa9",
                            "\xe6\xbc\xa2\xe5\xad\x97",
                            "\xf0\x9f\x98\x80",
                            "\xe6\xbc",
                            "\xa2\"",
                            "\x9f\x98",
                            "x\xf0",
                            "\xed\xa0",
                            "\xc0\x80",
                            "a\"b",
                            "\"\"",
                            "\"a\":",
                            "\"b\":",
                            "\\\\",
                            "/",
                            "\x01",
                            "a\nb"}) {
    pieces.emplace_back(piece);
  }
  pieces.push_back(std::string(70, 'a'));  // more characters than a plain token has
  std::vector<text::Vocabulary::Piece> view;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    using enum text::PieceKind;
    view.push_back({pieces[i], i == kStop ? special : i == kUnused ? unused : i < kFirstByte + 256 ? byte : text});
  }
  return std::make_shared<const text::Vocabulary>(view);
}

inline std::int32_t byte_token(char c) { return kFirstByte + static_cast<unsigned char>(c); }

// The text byte by byte: 0 = not a beginning, 1 = a beginning, 2 = complete.
inline int reads(const std::shared_ptr<const text::Grammar>& grammar, std::string_view bytes) {
  text::GrammarState state(grammar);
  for (const char c : bytes)
    if (!state.accept(byte_token(c))) return 0;
  return state.complete() ? 2 : 1;
}

inline bool has_bit(const std::vector<std::uint32_t>& mask, std::int32_t id) { return mask[id / 32] >> (id % 32) & 1; }

inline std::vector<std::uint32_t> mask_of(const text::GrammarState& state, std::int32_t size,
                                          const std::vector<std::int32_t>& stop_ids) {
  std::vector<std::uint32_t> mask(text::mask_words(size), ~0u);
  state.fill_mask(mask, stop_ids);
  return mask;
}

inline std::vector<std::int32_t> ids_of(const std::vector<std::uint32_t>& mask) {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(mask.size()) * 32; ++id)
    if (has_bit(mask, id)) ids.push_back(id);
  return ids;
}

// The tokens of one byte, by byte.
inline std::vector<std::int32_t> byte_ids(const text::Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids(256, -1);
  for (std::int32_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.bytes(id).size() == 1) ids[static_cast<unsigned char>(vocabulary.bytes(id)[0])] = id;
  return ids;
}

// Any allowed token, those with punctuation as often as the many without.
inline std::int32_t random_token(Random& random, const std::vector<std::uint32_t>& mask,
                                 const text::Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids = ids_of(mask);
  if (random.chance(2)) {
    std::vector<std::int32_t> punctuated;
    for (const std::int32_t id : ids)
      if (vocabulary.bytes(id).find_first_of("\"{}[]:,\\\xff") != std::string_view::npos) punctuated.push_back(id);
    if (!punctuated.empty()) ids = punctuated;
  }
  return ids[static_cast<std::size_t>(random.below(static_cast<int>(ids.size())))];
}

// Ends a text as soon as it can, byte by byte; nothing when it gets stuck.
inline std::optional<std::string> shortest_end(text::GrammarState state, const std::vector<std::int32_t>& byte_ids) {
  std::string text;
  while (!state.complete()) {
    std::string order = "\xff\"}]:0123456789ntf";
    for (int c = 0; c < 256; ++c) order += static_cast<char>(c);
    bool moved = false;
    for (const char c : order) {
      if (!state.accept(byte_ids[static_cast<unsigned char>(c)])) continue;
      text += c;
      moved = true;
      break;
    }
    if (!moved || text.size() > 20000) return std::nullopt;
  }
  return text;
}

// Names of properties: any, or those that a tool call can hold.
enum class Names { any, bare };

// Schemas with everything that is supported. References go to $defs a, b, c of the same schema.
class RandomSchema {
 public:
  explicit RandomSchema(Random& random, Names names = Names::any) : random_(random), names_(names) {}

  Value root() {
    Value::Object definitions;
    for (const char* name : {"a", "b", "c"}) {
      // A way out of any circle of references.
      definitions.emplace_back(name, object({{"anyOf", Value::Array{schema(2), object({{"type", "null"}})}}}));
    }
    Value::Object fields = *schema(3).object();
    fields.emplace_back("$defs", std::move(definitions));
    return fields;
  }

 private:
  static Value object(Value::Object fields) { return Value(std::move(fields)); }
  Value scalar() {
    switch (random_.below(6)) {
      case 0: return nullptr;
      case 1: return random_.chance(2);
      case 2: return random_.below(2000) - 1000;
      case 3: return random_.uniform(-10, 10);
      default: return word();
    }
  }
  std::string word() {
    static const char* kWords[] = {
        "a",  "b",  "name",     "na",       "the",          "theory",           "kind", "",   "\"",
        "\\", "\n", "\xc3\xa9", "\xc3\xa8", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80", "a b",  "x/y"};
    return kWords[random_.below(17)];
  }
  std::string name() {
    static const char* kBare[] = {"a", "B", "name", "na", "Names", "the", "theory", "kind", "a b", "x/y", "k-1", "it's"};
    return names_ == Names::any ? word() : kBare[random_.below(12)];
  }
  void bounds(Value::Object& fields, const char* least, const char* most, int limit) {
    const int low = random_.below(limit);
    if (random_.chance(2)) fields.emplace_back(least, low);
    if (random_.chance(2)) fields.emplace_back(most, low + random_.below(limit));
  }

  Value schema(int depth) {
    Value::Object fields;
    if (random_.chance(4)) fields.emplace_back("description", word());
    const auto list = [&](int count) {
      Value::Array items;
      for (int i = 0; i < count; ++i) items.push_back(schema(depth - 1));
      return items;
    };
    switch (random_.below(depth > 0 ? 14 : 8)) {
      case 0: fields.emplace_back("type", "boolean"); break;
      case 1: fields.emplace_back("type", "null"); break;
      case 2: fields.emplace_back("type", "number"); break;
      case 3: integer(fields); break;
      case 4:
        fields.emplace_back("type", "string");
        bounds(fields, "minLength", "maxLength", random_.chance(5) ? 100 : 6);
        break;
      case 5: fields.emplace_back("const", scalar()); break;
      case 6: {
        Value::Array values;
        for (int i = 0, count = 1 + random_.below(5); i < count; ++i) values.push_back(scalar());
        fields.emplace_back("enum", std::move(values));
        break;
      }
      case 7: fields.emplace_back("$ref", "#/$defs/" + std::string(1, "abc"[random_.below(3)])); break;
      case 8: fields.emplace_back("anyOf", list(1 + random_.below(4))); break;
      case 9: fields.emplace_back("allOf", list(1)); break;
      case 10:
        fields.emplace_back("type",
                            random_.chance(2) ? Value("array") : Value(Value::Array{"null", "array", "integer"}));
        if (random_.chance(3)) fields.emplace_back("prefixItems", list(1 + random_.below(3)));
        if (!random_.chance(3)) fields.emplace_back("items", schema(depth - 1));
        bounds(fields, "minItems", "maxItems", 3);
        break;
      case 11: discriminated(fields, depth); break;
      default: properties(fields, depth);
    }
    return fields;
  }

  void integer(Value::Object& fields) {
    fields.emplace_back("type", "integer");
    const std::int64_t scale = random_.chance(2) ? 30 : random_.chance(2) ? 5000 : 1'000'000'000'000;
    const auto near = [&] { return static_cast<std::int64_t>(random_.uniform(-1, 1) * static_cast<double>(scale)); };
    std::int64_t low = near(), high = near();
    if (low > high) std::swap(low, high);
    if (random_.chance(2)) fields.emplace_back(random_.chance(4) ? "exclusiveMinimum" : "minimum", low - 1);
    if (random_.chance(2)) fields.emplace_back(random_.chance(4) ? "exclusiveMaximum" : "maximum", high + 1);
  }

  void properties(Value::Object& fields, int depth) {
    fields.emplace_back("type", "object");
    Value::Object properties;
    Value::Array required;
    for (int i = 0, count = random_.below(6); i < count; ++i) {
      const std::string name = this->name();
      if (Value(properties).find(name)) continue;
      properties.emplace_back(name, schema(depth - 1));
      if (random_.chance(2)) required.emplace_back(name);
    }
    if (random_.chance(6)) required.emplace_back("undeclared");
    if (!properties.empty() || random_.chance(2)) fields.emplace_back("properties", std::move(properties));
    if (!required.empty()) fields.emplace_back("required", std::move(required));
    if (random_.chance(3))
      fields.emplace_back("additionalProperties", random_.chance(2) ? Value(true) : schema(depth - 1));
  }

  void discriminated(Value::Object& fields, int depth) {
    Value::Array alternatives;
    for (const char* kind : {"first", "second"}) {
      alternatives.push_back(
          object({{"type", "object"},
                  {"properties", object({{"x", schema(depth - 1)}, {"kind", object({{"const", kind}})}})},
                  {"required", Value::Array{"kind"}}}));
    }
    alternatives.push_back(object({{"type", "null"}}));
    fields.emplace_back("oneOf", std::move(alternatives));
  }

  Random& random_;
  Names names_;
};

// Instances as a grammar lets them be written: properties in the order of the schema, others after them (bare ones also in
// dictionary order).
class RandomInstance {
 public:
  RandomInstance(Random& random, const Value& root, Names names = Names::any)
      : random_(random), root_(root), names_(names) {}

  // Nothing when the schema has no value, or none that is this small.
  std::optional<Value> make() { return make(root_, 12); }

 private:
  std::optional<Value> make(const Value& schema, int depth) {
    if (depth == 0) return std::nullopt;
    const auto get = [&](const char* key) { return schema.find(key); };
    if (const Value* ref = get("$ref")) return make(*root_.find("$defs")->find(ref->string()->substr(8)), depth - 1);
    if (get("const")) return *get("const");
    if (get("enum")) return pick(*get("enum")->array());
    for (const char* key : {"allOf", "anyOf", "oneOf"})
      if (get(key)) return alternative(*get(key)->array(), depth);
    const Value* type = get("type");
    if (!type) return random_.chance(2) ? Value(word()) : Value(Value::Array{random_.below(9), word()});
    const std::string name = type->array() ? *pick(*type->array()).string() : *type->string();
    if (name == "boolean") return Value(random_.chance(2));
    if (name == "number") return Value(random_.chance(2) ? random_.uniform(-1e6, 1e6) : random_.uniform(-1, 1) * 1e-9);
    if (name == "integer") return integer(schema);
    if (name == "string") return string(schema);
    if (name == "array") return array(schema, depth);
    if (name == "object") return object(schema, depth);
    return Value();
  }

  const Value& pick(const Value::Array& list) {
    return list[static_cast<std::size_t>(random_.below(static_cast<int>(list.size())))];
  }
  std::string word() { return random_.chance(2) ? "word" : "\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80 \t\"\\/"; }

  std::optional<Value> alternative(const Value::Array& list, int depth) {
    for (int attempt = 0; attempt < 4; ++attempt)
      if (auto value = make(pick(list), depth - 1)) return value;
    return std::nullopt;
  }

  std::optional<Value> integer(const Value& schema) {
    const auto bound = [&](const char* key) {
      return schema.find(key) ? std::optional(*schema.find(key)->integer()) : std::nullopt;
    };
    auto low = bound("minimum"), high = bound("maximum");
    if (const auto b = bound("exclusiveMinimum")) low = *b + 1;
    if (const auto b = bound("exclusiveMaximum")) high = *b - 1;
    if (!low) low = high ? *high - 100'000 : -1'000'000;
    if (!high) high = *low + 2'000'000;
    if (*low > *high) return std::nullopt;
    switch (random_.below(4)) {
      case 0: return Value(*low);
      case 1: return Value(*high);
      default:
        return Value(*low + static_cast<std::int64_t>(random_.bits() % static_cast<std::uint64_t>(*high - *low + 1)));
    }
  }

  // A size within the limits of the schema.
  std::optional<int> size(const Value& schema, const char* least, const char* most) {
    const int low = schema.find(least) ? static_cast<int>(*schema.find(least)->integer()) : 0;
    const int high = schema.find(most) ? static_cast<int>(*schema.find(most)->integer()) : low + 3;
    if (low > high) return std::nullopt;
    return low + random_.below(high - low + 1);
  }

  std::optional<Value> string(const Value& schema) {
    const auto length = size(schema, "minLength", "maxLength");
    if (!length) return std::nullopt;
    static const char* kCharacters[] = {
        "a", " ", "\"", "\\", "\n", "\x02", "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80", "\x7f"};
    std::string text;
    for (int i = 0; i < *length; ++i) text += kCharacters[random_.below(10)];
    return Value(text);
  }

  std::optional<Value> array(const Value& schema, int depth) {
    auto count = size(schema, "minItems", "maxItems");
    const Value* prefix = schema.find("prefixItems");
    const Value* rest = schema.find("items");
    Value::Array items;
    for (int i = 0; count && i < *count; ++i) {
      const bool in_prefix = prefix && i < static_cast<int>(prefix->array()->size());
      if (!in_prefix && !rest && prefix) {
        const Value* least = schema.find("minItems");
        if (least && i < *least->integer()) return std::nullopt;
        break;
      }
      const auto item = in_prefix ? make((*prefix->array())[static_cast<std::size_t>(i)], depth - 1)
                        : rest    ? make(*rest, depth - 1)
                                  : std::optional(Value(word()));
      if (!item) return std::nullopt;
      items.push_back(*item);
    }
    return count ? std::optional(Value(items)) : std::nullopt;
  }

  std::optional<Value> object(const Value& schema, int depth) {
    const Value* properties = schema.find("properties");
    const Value* extra = schema.find("additionalProperties");
    const Value* required = schema.find("required");
    const auto is_required = [&](const std::string& name) {
      for (std::size_t i = 0; required && i < required->array()->size(); ++i)
        if (*(*required->array())[i].string() == name) return true;
      return false;
    };
    const auto other = [&] {
      return extra && extra->object() ? make(*extra, depth - 1) : std::optional(Value(word()));
    };
    Value::Object fields;
    for (std::size_t i = 0; properties && i < properties->object()->size(); ++i) {
      const auto& [name, rule] = (*properties->object())[i];
      const bool needed = is_required(name);
      if (!needed && random_.chance(2)) continue;
      if (const auto value = make(rule, depth - 1)) {
        fields.emplace_back(name, *value);
      } else if (needed) {
        return std::nullopt;
      }
    }
    const auto add_other = [&](const std::string& name) {
      const auto value = other();
      if (value) fields.emplace_back(name, *value);
      return value.has_value();
    };
    if (is_required("undeclared") && !add_other("undeclared")) return std::nullopt;
    if (extra || !properties) {
      static const std::vector<const char*> kAny = {"nam", "names", "th", "\xc3\xaa", "\xe6\xbc\xa3\xe6\xbc\xa3"};
      static const std::vector<const char*> kBare = {"y", "zero", "ZERO_1", "zz-.9"};
      for (const char* name : names_ == Names::any ? kAny : kBare)
        if (random_.chance(3)) add_other(name);
    }
    return Value(fields);
  }

  Random& random_;
  const Value& root_;
  Names names_;
};

}  // namespace lapidary::test
