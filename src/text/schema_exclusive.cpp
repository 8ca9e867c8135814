// When the alternatives of oneOf exclude each other: by type, by listed values, or by a property that both must have.
#include <algorithm>

#include "text/schema_part.hpp"

namespace lapidary::text {
namespace {

class Comparison {
 public:
  explicit Comparison(const SchemaPart& root) : root_(root) {}

  // No text that is written for one satisfies the other. False when in doubt.
  bool exclusive(SchemaPart a, SchemaPart b, int depth = 0) {
    if (--steps_left_ < 0 || depth > kMaxDepth) return false;
    const auto never = [](const SchemaPart& part) { return part.value().boolean() && !*part.value().boolean(); };
    if (!follow(a) || !follow(b)) return false;
    if (never(a) || never(b)) return true;
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
      for (const char* key : {"anyOf", "oneOf"}) {
        const auto list = one.find(key);
        if (!list || !list->value().array()) continue;
        for (std::size_t i = 0; i < list->value().array()->size(); ++i) {
          if (!exclusive(list->at(i), other, depth + 1)) return false;
        }
        return true;
      }
    }
    const auto values_a = a.values(), values_b = b.values();
    if (values_a && values_b) {
      return std::ranges::none_of(*values_a, [&](const Value& one) {
        return std::ranges::any_of(*values_b, [&](const Value& other) { return may_be_equal(one, other); });
      });
    }
    if (values_a || values_b) {
      const auto& values = values_a ? *values_a : *values_b;
      const JsonTypes types = satisfying_types(values_a ? b : a);
      return std::ranges::none_of(values, [&](const Value& v) { return (types_of(v) & types) != 0; });
    }
    const JsonTypes common = (a.types() & satisfying_types(b)) | (satisfying_types(a) & b.types());
    return common == 0 || (common == kObject && (lacks(a, b) || lacks(b, a) || differ_in_a_property(a, b, depth)));
  }

 private:
  static constexpr int kMaxDepth = 16;

  // Without `type`, values of other types than those that are written satisfy a schema too.
  static JsonTypes satisfying_types(const SchemaPart& part) { return part.find("type") ? part.types() : kAllTypes; }

  static bool may_be_equal(const Value& a, const Value& b) {
    const auto number = [](const Value& v) { return v.integer() ? static_cast<double>(*v.integer()) : *v.real(); };
    const JsonTypes common = types_of(a) & types_of(b);
    if (common & kNumber) return number(a) == number(b);
    return common & (kArray | kObject) || a == b;
  }

  // Through references; they may go in a circle.
  bool follow(SchemaPart& part) {
    while (--steps_left_ >= 0) {
      if (const auto reference = part.find("$ref")) {
        part = target_of(*reference, root_);
      } else if (const auto all = part.find("allOf"); all && all->value().array() && all->value().array()->size() == 1) {
        part = all->at(0);
      } else {
        return !all;
      }
    }
    return false;
  }

  static std::vector<std::string> required(const SchemaPart& part) {
    std::vector<std::string> names;
    const Value* list = part.value().find("required");
    if (!list || !list->array()) return names;
    for (const Value& name : *list->array()) {
      if (name.string()) names.push_back(*name.string());
    }
    return names;
  }

  // A property that `a` must have and `b` must not.
  bool lacks(const SchemaPart& a, const SchemaPart& b) {
    const Value* extra = b.value().find("additionalProperties");
    if (!extra || !extra->boolean() || *extra->boolean()) return false;
    const Value* properties = b.value().find("properties");
    return std::ranges::any_of(required(a), [&](const std::string& name) {
      --steps_left_;
      return !properties || !properties->find(name);
    });
  }

  bool differ_in_a_property(const SchemaPart& a, const SchemaPart& b, int depth) {
    const auto properties_a = a.find("properties"), properties_b = b.find("properties");
    if (!properties_a || !properties_b) return false;
    const std::vector<std::string> also = required(b);
    return std::ranges::any_of(required(a), [&](const std::string& name) {
      const auto value_a = properties_a->find(name), value_b = properties_b->find(name);
      return value_a && value_b && std::ranges::find(also, name) != also.end() &&
             exclusive(*value_a, *value_b, depth + 1);
    });
  }

  const SchemaPart& root_;
  int steps_left_ = 1'000'000;
};

}  // namespace

bool exclude_each_other(const SchemaPart& alternatives, const SchemaPart& root) {
  Comparison comparison(root);
  const std::size_t count = alternatives.value().array()->size();
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      if (!comparison.exclusive(alternatives.at(i), alternatives.at(j))) return false;
    }
  }
  return true;
}

}  // namespace lapidary::text
