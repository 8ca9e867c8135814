#include "cli/printer.hpp"

#include <iostream>

namespace lapidary::cli {
namespace {

constexpr const char *kDim = "\x1b[2m", *kPlain = "\x1b[0m";

}  // namespace

text::Value json_of(const text::ToolCall& call) {
  return text::Value::Object{{"name", call.name}, {"arguments", call.arguments}};
}

void Printer::begin(Line line) {
  if (open_ == line) return;
  if (open_ == Line::thought) std::cerr << (dims_thoughts_ ? kPlain : "") << std::endl;
  if (open_ == Line::content) std::cout << std::endl;
  open_ = line;
  if (open_ == Line::thought && dims_thoughts_) std::cerr << kDim;
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
