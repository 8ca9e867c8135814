// Recorded prompts, outputs and placeholders of the chat format.
#pragma once

#include <string>

#include "support/cases.hpp"
#include "text/value.hpp"

namespace lapidary::test {

inline const text::Value::Array& golden_chat(std::string_view list) {
  static const std::string path = kFixtures + "/chat-golden.json";
  static const text::Value all = text::parse_json(read_text_file(path), path);
  return *all.find(list)->array();
}

}  // namespace lapidary::test
