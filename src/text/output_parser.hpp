// What a model generates, taken apart while it arrives: thought, content, tool calls. Works on token ids, so that nothing inside
// a string can be taken for structure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/detokenizer.hpp"
#include "text/tokenizer.hpp"
#include "text/value.hpp"

namespace lapidary::text {

struct ToolCall {
  std::string name;
  Value arguments;  // an object
};

// What became certain with one token.
struct Event {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> calls;  // completed
};

class OutputParser {
 public:
  // `inside_thought`: the prompt ended in an open thought.
  explicit OutputParser(const Tokenizer& tokenizer, bool inside_thought = false);
  ~OutputParser();

  Event push(std::int32_t id);
  bool in_call() const;
  Event finish();  // also parses a call that was cut off, as far as it goes

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The arguments of a call in the model's own notation, and JSON text to such arguments.
std::string format_call(const ToolCall& call);  // "call:name{...}"

}  // namespace lapidary::text
