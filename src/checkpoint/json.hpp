// JSON with errors that name the file and the path of the key. For small documents only: the text is copied once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

#include "checkpoint/error.hpp"

namespace lapidary {

// Text from a file for use in a message: control characters replaced, long text cut.
std::string printable(std::string_view text);
std::string describe(simdjson::dom::element value);
// "line 3, column 14, expected JSON, got an error: ..." for a text that the parser refused with `error`; without the place where
// the structure is not what is wrong.
std::string json_fault(std::string_view text, std::string_view error);

// One object of a document and its path. An optional value counts as absent when it is null.
class JsonObject {
 public:
  JsonObject(simdjson::dom::object fields, std::string_view where, std::string path)
      : fields_(fields), where_(where), path_(std::move(path)) {}

  simdjson::dom::object fields() const { return fields_; }
  std::string path_of(std::string_view key) const;

  std::int32_t integer(std::string_view key, std::int32_t least, std::int32_t most) const;
  std::string_view text(std::string_view key) const;
  JsonObject object(std::string_view key) const;

  std::optional<std::int32_t> optional_integer(std::string_view key, std::int32_t least, std::int32_t most) const;
  std::optional<double> optional_number(std::string_view key, double least, double most) const;
  std::optional<bool> optional_boolean(std::string_view key) const;
  std::optional<std::string_view> optional_text(std::string_view key) const;
  std::optional<simdjson::dom::array> optional_array(std::string_view key) const;
  std::optional<JsonObject> optional_object(std::string_view key) const;

  // A field met while going through fields().
  JsonObject object_at(std::string_view key, simdjson::dom::element value) const;

  [[noreturn]] void reject(ErrorKind kind, std::string_view key, std::string_view expected) const;
  [[noreturn]] void reject(ErrorKind kind, std::string_view key, std::string_view expected, std::string_view got) const;

 private:
  std::optional<simdjson::dom::element> find(std::string_view key) const;
  std::optional<simdjson::dom::element> find_non_null(std::string_view key) const;
  [[noreturn]] void reject_absent(std::string_view key, std::string_view expected) const;

  simdjson::dom::object fields_;
  std::string_view where_;
  std::string path_;
};

class JsonDocument {
 public:
  // Throws `malformed` unless the text is one JSON object, `encoding` when it is not UTF-8. `where` must outlive it.
  JsonDocument(std::string_view text, std::string_view where, ErrorKind malformed = ErrorKind::not_json,
               ErrorKind encoding = ErrorKind::not_json);
  JsonDocument(const JsonDocument&) = delete;

  JsonObject root() const { return JsonObject(root_, where_, ""); }

 private:
  simdjson::dom::parser parser_;  // owns what root_ points into
  simdjson::dom::object root_;
  std::string_view where_;
};

}  // namespace lapidary
