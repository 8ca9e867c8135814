// The fields of a request. Each is read by name, and when all are read, none may be left: nothing is ignored in silence.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/error.hpp"
#include "serve/job.hpp"

namespace lapidary::serve {

inline constexpr std::string_view kInvalidValue = "invalid_value", kUnknownParameter = "unknown_parameter",
                                  kUnsupportedParameter = "unsupported_parameter";

// 400: "[path] what".
[[noreturn]] void refuse(const std::string& path, std::string_view what, std::string_view code = kInvalidValue);
// "[path] expected X, got Y", where a null pointer is nothing.
[[noreturn]] void refuse_value(const std::string& path, std::string_view expected, const text::Value* got);

// For messages: at most 40 characters of a text; of a list or an object what it is.
std::string shown(const text::Value& value);
std::string cut_text(std::string_view text);

std::string path_in(const std::string& path, std::string_view name);  // "a", "b" -> "a.b"
std::string path_at(const std::string& path, std::size_t index);      // "a", 2 -> "a[2]"

// Which values are the same as none: inside messages empty lists and objects, too.
enum class Absent : std::uint8_t { null, null_or_empty };

class Fields {
 public:
  // `object` must outlive it, and must be one. `path`: where in the body it stands; empty for the body itself.
  explicit Fields(const text::Value& object, std::string path = "", Absent absent = Absent::null);

  const text::Value* find(std::string_view name);  // null when absent
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most);
  std::optional<double> number(std::string_view name, double least, double most);
  const std::string* text(std::string_view name);
  const text::Value::Array* list(std::string_view name);
  const text::Value* object(std::string_view name);
  std::optional<std::string> one_of(std::string_view name, std::initializer_list<std::string_view> choices);

  // The same, but it must be there.
  const text::Value& need(std::string_view name, std::string_view expected);
  const std::string& need_text(std::string_view name);
  std::string need_one_of(std::string_view name, std::initializer_list<std::string_view> choices);

  // Fields that we do not have. `why` ends the message: "functions are declared as tools".
  void refused(std::string_view name, std::string_view why);
  // Fields that change nothing as long as they are one of `same`; anything else of their type is not supported.
  void without_effect(std::string_view name, std::initializer_list<text::Value> same);
  // Fields that change nothing whatever they are.
  void any_text(std::string_view name) { text(name); }
  void any_object(std::string_view name) { object(name); }

  void finish() const;  // refuses a field that nobody has asked for

  std::string path_of(std::string_view name) const;
  const std::string& path() const { return path_; }

 private:
  bool is_absent(const text::Value& value) const;

  const text::Value::Object* fields_;
  std::string path_;
  Absent absent_;
  std::vector<bool> read_;
};

}  // namespace lapidary::serve
