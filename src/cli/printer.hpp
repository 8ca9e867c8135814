// An answer for people, as it comes: content to stdout, thoughts to stderr, dimmed on a terminal, a call as a line of JSON.
#pragma once

#include <unistd.h>

#include "cli/terminal.hpp"
#include "text/output_parser.hpp"

namespace lapidary::cli {

class Printer {
 public:
  void print(const text::Event& event);
  void finish();  // ends the last line

 private:
  enum class Line : unsigned char { none, thought, content };
  void begin(Line line);  // ends the line of the other kind

  Line open_ = Line::none;
  const bool dims_thoughts_ = takes_colours(STDERR_FILENO);
};

text::Value json_of(const text::ToolCall& call);  // {"name": ..., "arguments": {...}}

}  // namespace lapidary::cli
