#include "checkpoint/json.hpp"

#include <sstream>

namespace lapidary {

namespace {

constexpr std::size_t kPrintedBytes = 120;

template <class Number>
std::string range_of(std::string_view what, Number least, Number most) {
  std::ostringstream text;
  text << what << " from " << least << " to " << most;
  return text.str();
}

}  // namespace

std::string printable(std::string_view text) {
  const bool cut = text.size() > kPrintedBytes;
  if (cut) {
    std::size_t end = kPrintedBytes;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // not inside a UTF-8 sequence
    text = text.substr(0, end);
  }
  std::string result(text);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return cut ? result + "..." : result;
}

std::string describe(simdjson::dom::element value) {
  using simdjson::dom::element_type;
  switch (value.type()) {
    case element_type::STRING: return '"' + printable(value.get_string().value_unsafe()) + '"';
    case element_type::ARRAY: return "an array of " + std::to_string(value.get_array().value_unsafe().size());
    case element_type::OBJECT: return "an object";
    default: return simdjson::to_string(value);
  }
}

std::string JsonObject::path_of(std::string_view key) const {
  return path_.empty() ? printable(key) : path_ + "." + printable(key);
}

void JsonObject::reject(ErrorKind kind, std::string_view key, std::string_view expected, std::string_view got) const {
  fail(kind, std::string(where_), path_of(key) + ", expected " + std::string(expected) + ", got " + std::string(got));
}

void JsonObject::reject(ErrorKind kind, std::string_view key, std::string_view expected) const {
  const auto value = find(key);
  reject(kind, key, expected, value ? describe(*value) : "nothing");
}

void JsonObject::reject_absent(std::string_view key, std::string_view expected) const {
  reject(find(key) ? ErrorKind::wrong_type : ErrorKind::missing_key, key, expected);
}

// Goes through all fields: two readers may disagree about which of two equal keys counts, so both are refused.
std::optional<simdjson::dom::element> JsonObject::find(std::string_view key) const {
  std::optional<simdjson::dom::element> found;
  for (const auto& field : fields_) {
    if (field.key != key) continue;
    if (found) reject(ErrorKind::bad_value, key, "the key once", "it twice");
    found = field.value;
  }
  return found;
}

std::optional<simdjson::dom::element> JsonObject::find_non_null(std::string_view key) const {
  auto found = find(key);
  if (found && found->is_null()) found.reset();
  return found;
}

std::optional<std::int32_t> JsonObject::optional_integer(std::string_view key, std::int32_t least,
                                                         std::int32_t most) const {
  const auto value = find_non_null(key);
  if (!value) return std::nullopt;
  const std::string expected = range_of("a whole number", least, most);
  if (!value->is_int64() && !value->is_uint64()) reject(ErrorKind::wrong_type, key, expected);
  std::int64_t number = 0;
  if (value->get(number) || number < least || number > most) reject(ErrorKind::bad_value, key, expected);
  return static_cast<std::int32_t>(number);
}

std::optional<double> JsonObject::optional_number(std::string_view key, double least, double most) const {
  const auto value = find_non_null(key);
  if (!value) return std::nullopt;
  const std::string expected = range_of("a number", least, most);
  double number = 0;
  if (value->get(number)) reject(ErrorKind::wrong_type, key, expected);
  if (!(number >= least && number <= most)) reject(ErrorKind::bad_value, key, expected);
  return number;
}

std::optional<bool> JsonObject::optional_boolean(std::string_view key) const {
  const auto value = find_non_null(key);
  if (!value) return std::nullopt;
  bool flag = false;
  if (value->get(flag)) reject(ErrorKind::wrong_type, key, "true or false");
  return flag;
}

std::optional<std::string_view> JsonObject::optional_text(std::string_view key) const {
  const auto value = find_non_null(key);
  if (!value) return std::nullopt;
  std::string_view text;
  if (value->get(text)) reject(ErrorKind::wrong_type, key, "a string");
  return text;
}

std::optional<simdjson::dom::array> JsonObject::optional_array(std::string_view key) const {
  const auto value = find_non_null(key);
  if (!value) return std::nullopt;
  simdjson::dom::array array;
  if (value->get(array)) reject(ErrorKind::wrong_type, key, "an array");
  return array;
}

std::optional<JsonObject> JsonObject::optional_object(std::string_view key) const {
  const auto value = find_non_null(key);
  if (!value) return std::nullopt;
  return object_at(key, *value);
}

JsonObject JsonObject::object_at(std::string_view key, simdjson::dom::element value) const {
  simdjson::dom::object object;
  if (value.get(object)) reject(ErrorKind::wrong_type, key, "an object", describe(value));
  return JsonObject(object, where_, path_of(key));
}

std::int32_t JsonObject::integer(std::string_view key, std::int32_t least, std::int32_t most) const {
  if (const auto number = optional_integer(key, least, most)) return *number;
  reject_absent(key, range_of("a whole number", least, most));
}

std::string_view JsonObject::text(std::string_view key) const {
  if (const auto text = optional_text(key)) return *text;
  reject_absent(key, "a string");
}

JsonObject JsonObject::object(std::string_view key) const {
  if (auto object = optional_object(key)) return *object;
  reject_absent(key, "an object");
}

JsonDocument::JsonDocument(std::string_view text, std::string_view where, ErrorKind malformed, ErrorKind encoding)
    : where_(where) {
  simdjson::dom::element root;
  const auto error = parser_.parse(simdjson::padded_string(text)).get(root);
  if (error == simdjson::MEMALLOC) {
    fail(ErrorKind::out_of_memory, std::string(where),
         "no memory to read " + std::to_string(text.size()) + " bytes of JSON");
  }
  if (error) {
    fail(error == simdjson::UTF8_ERROR ? encoding : malformed, std::string(where),
         json_fault(text, simdjson::error_message(error)));
  }
  if (root.get(root_)) fail(malformed, std::string(where), "top level, expected an object, got " + describe(root));
}

}  // namespace lapidary
