#include "cli/printer.hpp"

#include <unistd.h>

#include <iostream>

#include "cli/terminal.hpp"

namespace lapidary::cli {

text::Value json_of(const text::ToolCall& call) {
  return text::Value::Object{{"name", call.name}, {"arguments", call.arguments}};
}

Printer::Printer(bool folds_thoughts, bool quiet)
    : folds_thoughts_(folds_thoughts), dim_(takes_colours(STDERR_FILENO) ? "\x1b[2m" : ""),
      plain_(takes_colours(STDERR_FILENO) ? "\x1b[0m" : ""), thinking_(quiet) {}

void Printer::begin(Line line) {
  if (open_ == line) return;
  if (open_ == Line::thought) {
    thinking_.clear();
    if (folds_thoughts_ && thought_tokens_ == 0) std::cerr << dim_ << "(thought)";
    else if (folds_thoughts_) std::cerr << dim_ << "(thought for " << thought_tokens_ << (thought_tokens_ == 1 ? " token)" : " tokens)");
    std::cerr << plain_ << std::endl;
  }
  if (open_ == Line::content) std::cout << std::endl;
  open_ = line;
  if (open_ == Line::thought && !folds_thoughts_) std::cerr << dim_;
}

void Printer::think(const std::string& text, std::size_t tokens) {
  if (open_ != Line::thought) before_thought_ = tokens > 0 ? tokens - 1 : 0;
  begin(Line::thought);
  thought_tokens_ = tokens - before_thought_;
  if (folds_thoughts_) thinking_.show(tokens > 0 ? "thinking: " + std::to_string(thought_tokens_) + " tokens" : "thinking");
  else std::cerr << text << std::flush;
}

void Printer::print(const engine::Event& event, std::size_t tokens) {
  if (!event.reasoning.empty()) think(event.reasoning, tokens);
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
