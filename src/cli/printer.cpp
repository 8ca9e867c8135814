#include "cli/printer.hpp"

#include <iostream>

namespace lapidary::cli {

text::Value json_of(const text::ToolCall& call) {
  return text::Value::Object{{"name", call.name}, {"arguments", call.arguments}};
}

void Printer::begin(Line line) {
  if (open_ == line) return;
  if (open_ != Line::none) (open_ == Line::thought ? std::cerr : std::cout) << std::endl;
  open_ = line;
}

void Printer::print(const text::Event& event) {
  if (!event.reasoning.empty()) {
    begin(Line::thought);
    std::cerr << event.reasoning << std::flush;
  }
  if (!event.content.empty()) {
    begin(Line::content);
    std::cout << event.content << std::flush;
  }
  for (const text::ToolCall& call : event.calls) {
    begin(Line::none);
    std::cout << text::to_json(json_of(call)) << std::endl;
  }
}

void Printer::finish() { begin(Line::none); }

}  // namespace lapidary::cli
