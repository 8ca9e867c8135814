// Lines from the user: with editing and history on a terminal, plain from a pipe.
#pragma once

#include <optional>
#include <string>

#include "cli/input.hpp"

namespace lapidary::cli {

class LineReader {
 public:
  explicit LineReader(InputLimit limit);  // of a line from a pipe
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  const char* prompt() const { return prompt_; }
  void give_up_line() { given_up_ = true; }
  void stop();  // the program, until the shell lets it go on; the line is drawn again then
  bool interactive() const { return interactive_; }
  // Nothing at the end of the input. Ctrl-C on a terminal gives up the line and asks again.
  std::optional<std::string> read(const char* prompt);

 private:
  const InputLimit limit_;
  bool interactive_;
  bool marks_pastes_ = false;
  const char* prompt_ = "";
  bool given_up_ = false;
  void* editor_ = nullptr;   // EditLine, History: libedit's own types stay in the source file
  void* history_ = nullptr;
  std::string history_file_; // empty = none
};

}  // namespace lapidary::cli
