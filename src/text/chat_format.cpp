#include "text/chat_format.hpp"

#include <algorithm>

namespace lapidary::text {

namespace {

// Python's repr() of a string, except that what is not ASCII always stays as it is.
std::string in_quotes(std::string_view text) {
  const char mark = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out(1, mark);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == mark || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + mark;
}

// Python's repr().
std::string represented(const Value& value) {
  if (const std::string* text = value.string()) return in_quotes(*text);
  std::string out;
  if (const Value::Array* array = value.array()) {
    for (const Value& item : *array) out += (out.empty() ? "" : ", ") + represented(item);
    return "[" + out + "]";
  }
  if (const Value::Object* object = value.object()) {
    for (const auto& [key, field] : *object) out += (out.empty() ? "" : ", ") + in_quotes(key) + ": " + represented(field);
    return "{" + out + "}";
  }
  return printed(value);
}

}  // namespace

std::vector<const std::pair<std::string, Value>*> in_dictionary_order(const Value::Object& object) {
  std::vector<std::pair<std::string, const std::pair<std::string, Value>*>> keyed;  // equal keys by place in the object
  for (const auto& field : object) keyed.emplace_back(lower_case(field.first), &field);
  std::sort(keyed.begin(), keyed.end());
  std::vector<const std::pair<std::string, Value>*> fields;
  for (const auto& [key, field] : keyed) fields.push_back(field);
  return fields;
}

std::string printed(const Value& value) {
  if (value.is_null()) return "None";
  if (const bool* flag = value.boolean()) return *flag ? "True" : "False";
  if (const std::int64_t* number = value.integer()) return std::to_string(*number);
  if (const double* number = value.real()) return number_text(*number);
  if (const std::string* text = value.string()) return *text;
  return represented(value);
}

std::string upper_case(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

void write_string(PromptWriter& out, std::string_view text) {
  out.markup(kQuote);
  out.quote(text);
  out.markup(kQuote);
}

void write_fields(PromptWriter& out, const Value::Object& object, Keys keys, Revision revision) {
  const char* before = "";
  for (const auto* field : in_dictionary_order(object)) {
    out.markup(before);
    if (keys == Keys::quoted) {
      write_string(out, field->first);
    } else {
      out.quote(field->first);
    }
    out.markup(":");
    write_value(out, field->second, keys, revision);
    before = ",";
  }
}

void write_value(PromptWriter& out, const Value& value, Keys keys, Revision revision) {
  if (const std::string* text = value.string()) {
    write_string(out, *text);
  } else if (const bool* flag = value.boolean()) {
    out.markup(*flag ? "true" : "false");
  } else if (const Value::Object* object = value.object()) {
    out.markup("{");
    write_fields(out, *object, keys, revision);
    out.markup("}");
  } else if (const Value::Array* array = value.array()) {
    const char* before = "";
    out.markup("[");
    for (const Value& item : *array) {
      out.markup(before);
      write_value(out, item, keys, revision);
      before = ",";
    }
    out.markup("]");
  } else if (value.is_null() && revision == Revision::canonical) {
    out.markup("null");
  } else {
    out.markup(printed(value));
  }
}

}  // namespace lapidary::text
