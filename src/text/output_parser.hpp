// What a model generates, taken apart while it arrives: thought, content, tool calls. Works on token ids, so that nothing inside
// a string can be taken for structure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/detokenizer.hpp"
#include "text/origins.hpp"
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
  std::vector<ToolCall> calls;         // completed
  std::vector<Origin> content_origins;  // ids are numbered as they were pushed, from 0 on
};

// Where in an answer the prompt ended.
enum class Begin : std::uint8_t { at_start, in_thought, in_text };

class OutputParser {
 public:
  explicit OutputParser(const Tokenizer& tokenizer, Begin begin = Begin::at_start);
  ~OutputParser();

  Event push(std::int32_t id);
  bool in_thought() const;
  bool in_call() const;
  // A call that was cut off is parsed as far as it goes, or dropped.
  Event finish(bool drops_call = false);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The arguments of a call in the model's own notation, and JSON text to such arguments.
std::string format_call(const ToolCall& call);  // "call:name{...}"

}  // namespace lapidary::text
