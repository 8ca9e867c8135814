#include "text/value.hpp"

#include <charconv>
#include <cmath>
#include <locale>
#include <sstream>

#include <simdjson.h>

#include "checkpoint/error.hpp"
#include "checkpoint/json.hpp"

namespace lapidary::text {

namespace {

// Deep enough for any schema or message, shallow enough to walk by recursion.
constexpr std::size_t kMaxJsonDepth = 256;

Value to_value(simdjson::dom::element element) {
  using simdjson::dom::element_type;
  switch (element.type()) {
    case element_type::NULL_VALUE: return Value();
    case element_type::BOOL: return Value(element.get_bool().value_unsafe());
    case element_type::INT64: return Value(element.get_int64().value_unsafe());
    case element_type::UINT64: return Value(static_cast<double>(element.get_uint64().value_unsafe()));
    case element_type::DOUBLE: return Value(element.get_double().value_unsafe());
    case element_type::STRING: return Value(element.get_string().value_unsafe());
    case element_type::ARRAY: {
      const simdjson::dom::array items = element.get_array().value_unsafe();
      Value::Array array;
      for (const auto item : items) array.push_back(to_value(item));
      return Value(std::move(array));
    }
    case element_type::OBJECT: {
      const simdjson::dom::object fields = element.get_object().value_unsafe();
      ObjectBuilder object;
      for (const auto field : fields) object.add(std::string(field.key), to_value(field.value));
      return Value(object.take());
    }
  }
  return Value();
}

void write_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[static_cast<unsigned char>(c) >> 4];
          out += kHex[c & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void write_value(std::string& out, const Value& value) {
  if (value.is_null()) out += "null";
  if (const bool* flag = value.boolean()) out += *flag ? "true" : "false";
  if (const std::int64_t* number = value.integer()) out += std::to_string(*number);
  if (const double* number = value.real()) out += std::isfinite(*number) ? number_text(*number) : "null";
  if (const std::string* text = value.string()) write_string(out, *text);
  if (const Value::Array* array = value.array()) {
    const char* before = "";
    out += '[';
    for (const Value& item : *array) {
      out += before;
      write_value(out, item);
      before = ",";
    }
    out += ']';
  }
  if (const Value::Object* object = value.object()) {
    const char* before = "";
    out += '{';
    for (const auto& [key, field] : *object) {
      out += before;
      write_string(out, key);
      out += ':';
      write_value(out, field);
      before = ",";
    }
    out += '}';
  }
}

}  // namespace

const Value* Value::find(std::string_view key) const {
  if (const Object* fields = object()) {
    for (const auto& [name, value] : *fields)
      if (name == key) return &value;
  }
  return nullptr;
}

bool Value::truthy() const {
  if (const bool* flag = boolean()) return *flag;
  if (const std::int64_t* number = integer()) return *number != 0;
  if (const double* number = real()) return *number != 0;
  if (const std::string* text = string()) return !text->empty();
  if (const Array* items = array()) return !items->empty();
  if (const Object* fields = object()) return !fields->empty();
  return false;
}

void ObjectBuilder::add(std::string key, Value value) {
  const auto [place, is_new] = places_.try_emplace(key, fields_.size());
  if (is_new) {
    fields_.emplace_back(std::move(key), std::move(value));
  } else {
    fields_[place->second].second = std::move(value);
  }
}

Value parse_json(std::string_view json, std::string_view where) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::error_code error = parser.allocate(json.size(), kMaxJsonDepth);
  if (!error) error = parser.parse(simdjson::padded_string(json)).get(root);
  if (error == simdjson::MEMALLOC) {
    fail(ErrorKind::out_of_memory, std::string(where),
         "no memory to read " + std::to_string(json.size()) + " bytes of JSON");
  }
  if (error) {
    fail(ErrorKind::not_json, std::string(where), json_fault(json, simdjson::error_message(error)));
  }
  return to_value(root);
}

std::string to_json(const Value& value) {
  std::string out;
  write_value(out, value);
  return out;
}

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[32];  // at most 17 digits, a sign, a point and an exponent
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(written.ptr - buffer));
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), written.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);

  const std::string sign = std::signbit(number) ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::optional<double> read_number(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != text.npos || text.front() == '+') return std::nullopt;
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  double number = 0;
  if (!(stream >> number) || stream.peek() != std::istringstream::traits_type::eof()) return std::nullopt;
  return number;
}

}  // namespace lapidary::text
