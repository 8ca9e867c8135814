#include "text/chat_fields.hpp"

#include "checkpoint/error.hpp"

namespace lapidary::text {

namespace {

std::string_view kind_of(const Value* value) {
  if (!value) return "nothing";
  if (value->boolean()) return "true or false";
  if (value->integer() || value->real()) return "a number";
  if (value->string()) return "a string";
  if (value->array()) return "a list";
  if (value->object()) return "an object";
  return "null";
}

std::string field_path(const std::string& path, std::string_view key) { return path + "." + std::string(key); }

}  // namespace

void reject(std::string_view path, std::string_view expected, const Value* got) {
  fail(got ? ErrorKind::wrong_type : ErrorKind::missing_key, "chat",
       std::string(path) + ", expected " + std::string(expected) + ", got " + std::string(kind_of(got)));
}

const Value::Array& as_array(const Value& value, const std::string& path) {
  if (!value.array()) reject(path, "a list", &value);
  return *value.array();
}

const std::string& as_string(const Value& value, const std::string& path) {
  if (!value.string()) reject(path, "a string", &value);
  return *value.string();
}

std::string item_path(const std::string& path, std::size_t index) { return path + "[" + std::to_string(index) + "]"; }

const Value& object_field(const Value& of, std::string_view key, const std::string& path) {
  const Value* field = of.find(key);
  if (!field || !field->object()) reject(field_path(path, key), "an object", field);
  return *field;
}

const std::string& string_field(const Value& of, std::string_view key, const std::string& path) {
  const Value* field = of.find(key);
  if (!field || !field->string()) reject(field_path(path, key), "a string", field);
  return *field->string();
}

const Value* truthy_field(const Value& of, std::string_view key) {
  const Value* field = of.find(key);
  return field && field->truthy() ? field : nullptr;
}

}  // namespace lapidary::text
