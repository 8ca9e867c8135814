// An answer for people, as it comes: content to stdout, thoughts to stderr, a call as a line of JSON.
#pragma once

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
};

text::Value json_of(const text::ToolCall& call);  // {"name": ..., "arguments": {...}}

}  // namespace lapidary::cli
