// An answer for people, as it comes: content to stdout, thoughts to stderr, dimmed on a terminal, a call as a line of JSON.
#pragma once

#include <cstddef>

#include "cli/progress.hpp"
#include "engine/answer.hpp"

namespace lapidary::cli {

class Printer {
 public:
  // `folds_thoughts`: a line says how long a thought was, in its place; a terminal shows how long it is so far.
  Printer(bool folds_thoughts, bool quiet);
  void print(const engine::Event& event, std::size_t tokens = 0);  // after so many of the answer; 0: nobody counts them
  void finish();                                                   // ends the last line

 private:
  enum class Line : unsigned char { none, thought, content };
  void begin(Line line);  // ends the line of the other kind
  void think(const std::string& text, std::size_t tokens);

  const bool folds_thoughts_;
  const char *dim_, *plain_;  // empty where there are no colours
  StatusLine thinking_;
  Line open_ = Line::none;
  std::size_t before_thought_ = 0, thought_tokens_ = 0;
};

text::Value json_of(const text::ToolCall& call);  // {"name": ..., "arguments": {...}}

}  // namespace lapidary::cli
