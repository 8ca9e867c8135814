// What the model goes on from: the one way from messages, or from a text, to tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/model.hpp"
#include "text/value.hpp"

namespace lapidary::engine {

// How the output is read: as an answer with thoughts and calls, or as plain text.
enum class Reading { plain, answer, answer_in_thought };

struct Prompt {
  std::vector<std::int32_t> ids;
  Reading reading = Reading::plain;
  bool may_think = false;  // the output may begin with a thought

  // `messages` and `tools` as text::render() takes them.
  static Prompt of_messages(const Model& model, const text::Value& messages, const text::Value& tools, bool think);
  // The text as it is, without a chat template.
  static Prompt of_text(const Model& model, std::string_view text);
};

}  // namespace lapidary::engine
