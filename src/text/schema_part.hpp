// A part of a JSON Schema as it was written: its place for errors, its types, what it refers to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/error.hpp"
#include "text/value.hpp"

namespace lapidary::text {

// Kinds of JSON values as bits of a set. A whole number is an integer and a number.
enum JsonType : std::uint8_t { kNull = 1, kBoolean = 2, kInteger = 4, kNumber = 8, kString = 16, kArray = 32, kObject = 64 };
using JsonTypes = std::uint8_t;
inline constexpr JsonTypes kAllTypes = 127;

class SchemaPart {
 public:
  SchemaPart(const Value& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const Value& value() const { return *value_; }
  const std::string& path() const { return path_; }
  std::optional<SchemaPart> find(std::string_view key) const;
  SchemaPart at(std::string_view key, const Value& child) const;
  SchemaPart at(std::size_t index) const;  // of an array

  const Value::Array& array(std::string_view expected) const;
  const Value::Object& object(std::string_view expected) const;
  std::optional<std::uint64_t> count(std::string_view key) const;

  // Fails unless this is true, false, or an object of supported keywords that go together.
  void check() const;
  bool allows_anything() const;  // true, or no keyword but annotations

  JsonTypes types() const;  // as `type` says, or as its other keywords suggest
  // The values of const and enum that `type` allows; nothing when it has neither.
  std::optional<std::vector<Value>> values() const;

  [[noreturn]] void reject(ErrorKind kind, std::string_view expected) const;

 private:
  const Value* value_;
  std::string path_;
};

JsonTypes types_of(const Value& instance);

// What "#", "#/$defs/NAME" or "#/definitions/NAME" stands for in the schema `root`.
SchemaPart target_of(const SchemaPart& reference, const SchemaPart& root);

// Whether surely no value satisfies two of the alternatives: then oneOf means the same as anyOf.
bool exclude_each_other(const SchemaPart& alternatives, const SchemaPart& root);

}  // namespace lapidary::text
