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
                                     false);
}

// Turns until the end.
inline const engine::Answer::Result& finish(engine::Answer& answer) {
  while (answer.turn()) {
  }
  return answer.result();
}

}  // namespace lapidary::test
