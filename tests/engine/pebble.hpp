// pebble with a few sessions, and what is asked of it.
#pragma once

#include <string>

#include "engine/answer.hpp"
#include "support/cases.hpp"

namespace lapidary::test {

inline engine::ModelOptions pebble_options(int sessions = 1) {
  engine::ModelOptions options{.folder = kRoot + "/models/pebble"};
  options.link.context_tokens = 256;
  options.link.sessions = sessions;
  return options;
}

inline engine::Prompt asked(const engine::Model& model, const std::string& question) {
  return engine::Prompt::of_messages(model, text::Value::Array{text::Value::Object{{"role", "user"}, {"content", question}}}, {},
                                     {});
}

// The calls come to an end whatever is chosen.
inline text::Value pebble_tools() {
  return text::parse_json(R"([
    {"type":"function","function":{"name":"get_weather","description":"Weather at a place","parameters":{"type":"object",
      "properties":{"location":{"type":"string","maxLength":12}},"required":["location"]}}},
    {"type":"function","function":{"name":"add","description":"Sum","parameters":{"type":"object",
      "properties":{"a":{"type":"integer","minimum":0,"maximum":99},"b":{"type":"integer","minimum":0,"maximum":99}},"required":["a","b"]}}}])",
                          "tools");
}

// In a conversation of its own, with so many drafts in each round.
inline engine::Answer::Result answered(engine::Model& model, const engine::Prompt& prompt, const engine::AnswerOptions& options, int drafts) {
  engine::Conversation conversation(model);
  conversation.drafts = decode::DraftChoice{.sources = {true, true}, .fixed_k = drafts};
  engine::Answer answer(conversation, prompt, options);
  while (answer.turn()) {
  }
  return answer.result();
}

// Turns until the end.
inline const engine::Answer::Result& finish(engine::Answer& answer) {
  while (answer.turn()) {
  }
  return answer.result();
}

}  // namespace lapidary::test
