// A JSON value: what tools, schemas and messages are made of. Objects keep their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace lapidary::text {

class Value {
 public:
  using Array = std::vector<Value>;
  using Object = std::vector<std::pair<std::string, Value>>;  // keys are unique

  Value() = default;  // null
  Value(std::nullptr_t) {}
  Value(bool b) : data_(b) {}
  Value(std::int64_t i) : data_(i) {}
  Value(int i) : data_(std::int64_t{i}) {}
  Value(double d) : data_(d) {}
  Value(std::string s) : data_(std::move(s)) {}
  Value(std::string_view s) : data_(std::string(s)) {}
  Value(const char* s) : data_(std::string(s)) {}
  Value(Array a) : data_(std::move(a)) {}
  Value(Object o) : data_(std::move(o)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const std::string* string() const { return std::get_if<std::string>(&data_); }
  const Array* array() const { return std::get_if<Array>(&data_); }
  const Object* object() const { return std::get_if<Object>(&data_); }

  const Value* find(std::string_view key) const;  // of an object; null when absent or not an object
  bool truthy() const;                            // not null, false, 0 or empty

  bool operator==(const Value&) const = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
};

// Collects the fields of an object. A repeated key keeps its place and takes the later value.
class ObjectBuilder {
 public:
  void add(std::string key, Value value);
  Value::Object take() { return std::move(fields_); }

 private:
  Value::Object fields_;
  std::unordered_map<std::string, std::size_t> places_;
};

// `where` names the text in errors. Whole numbers that do not fit in 64 bits with a sign become doubles.
Value parse_json(std::string_view json, std::string_view where);
std::string to_json(const Value& value);

// The shortest text that reads back as the same double, never like a whole number: "2.0", "0.5", "1e+20", "1e-07".
std::string number_text(double number);

// The number that a text is, as a program would write it; nothing where it is something else or too large. In every locale the
// point is a point. (std::from_chars would do; older systems of Apple have none for floating point.)
std::optional<double> read_number(std::string_view text);

}  // namespace lapidary::text
