// How far something is that takes long: one line on a terminal's standard error, gone without a trace.
#pragma once

#include <string>

#include "engine/answer.hpp"

namespace lapidary::cli {

class StatusLine {
 public:
  explicit StatusLine(bool quiet);
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  ~StatusLine() { clear(); }

  void show(const std::string& text);  // in place of what it showed before
  void clear();

 private:
  const bool shows_;
  bool open_ = false;  // the line is on the screen
};

// Of a long prompt, after each turn of its answer; nothing once that has begun.
void show_prompt(StatusLine& line, const engine::Answer& answer);

}  // namespace lapidary::cli
