// Reads messages and tools with errors that say where in them the mistake is.
#pragma once

#include <string>
#include <string_view>

#include "text/value.hpp"

namespace lapidary::text {

// `path` names `value` in errors: "messages[2].content".
[[noreturn]] void reject(std::string_view path, std::string_view expected, const Value* got);

const Value::Array& as_array(const Value& value, const std::string& path);
const std::string& as_string(const Value& value, const std::string& path);
std::string item_path(const std::string& path, std::size_t index);

// The field `key` of the object `of`: there and of the right kind.
const Value& object_field(const Value& of, std::string_view key, const std::string& path);
const std::string& string_field(const Value& of, std::string_view key, const std::string& path);

// The field if it is truthy, else null.
const Value* truthy_field(const Value& of, std::string_view key);

}  // namespace lapidary::text
