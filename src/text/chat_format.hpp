// How the template prints values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat.hpp"
#include "text/chat_writer.hpp"
#include "text/value.hpp"

namespace lapidary::text {

inline constexpr std::string_view kQuote = "<|\"|>";  // around strings

enum class Keys : std::uint8_t { bare, quoted };

// {..}, [..], <|"|>string<|"|>, numbers as Python prints them. Revisions before the canonical one print null as None.
void write_value(PromptWriter& out, const Value& value, Keys keys, Revision revision);
void write_string(PromptWriter& out, std::string_view text);
// key:value,key:value without braces.
void write_fields(PromptWriter& out, const Value::Object& object, Keys keys, Revision revision);

// The fields sorted by lower-cased key; equal ones stay in order. Letters outside ASCII count as they are.
std::vector<const std::pair<std::string, Value>*> in_dictionary_order(const Value::Object& object);

// What Python's str() makes of a value.
std::string printed(const Value& value);
// ASCII letters only.
std::string upper_case(std::string text);
std::string lower_case(std::string text);

}  // namespace lapidary::text
