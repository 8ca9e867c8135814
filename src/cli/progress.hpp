// How far a long prompt is: one line on a terminal's standard error, gone when the answer begins.
#pragma once

#include "engine/answer.hpp"

namespace lapidary::cli {

class Progress {
 public:
  explicit Progress(bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  void show(const engine::Answer& answer);  // after each turn of it

 private:
  void clear();

  const bool shows_;
  bool open_ = false;  // the line is on the screen
};

}  // namespace lapidary::cli
