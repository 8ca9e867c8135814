// Any token ids as a model's output: text that is stripped, calls that are JSON.
#include <cstdint>
#include <cstdlib>

#include "text/output_parser.hpp"
#include "text/whitespace.hpp"

namespace {

using namespace lapidary::text;

void check(bool holds) {
  if (!holds) std::abort();
}

// Bytes below 32 are special tokens, printable ones the text of calls; a byte from 128 on begins the two bytes of any id.
std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, const std::uint8_t* data, std::size_t size) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] < 32) {
      ids.push_back(data[i]);
    } else if (data[i] < 128) {
      const char c = static_cast<char>(data[i]);
      for (const std::int32_t id : tokenizer.encode(std::string_view(&c, 1))) ids.push_back(id);
    } else if (++i < size) {
      ids.push_back(((data[i - 1] & 127) << 8 | data[i]) % tokenizer.size());
    }
  }
  return ids;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer tokenizer = Tokenizer::open(LAPIDARY_ROOT "/models/pebble");
  OutputParser parser(tokenizer, size % 2 == 1 ? Begin::in_thought : Begin::at_start);
  std::string content, reasoning;
  int last = -1;
  const auto take = [&](const Event& event) {
    content += event.content;
    reasoning += event.reasoning;
    check(strip(content) == content && strip(reasoning) == reasoning);
    std::size_t bytes = 0;
    for (const Origin& origin : event.content_origins) {
      check(origin.number >= last);
      last = origin.number;
      bytes += origin.bytes;
    }
    check(bytes == event.content.size());
    for (const ToolCall& call : event.calls) {
      check(!call.name.empty() && call.arguments.object());
      check(parse_json(to_json(call.arguments), "fuzz") == call.arguments);
      check(format_call(call).starts_with("call:"));
    }
  };
  for (const std::int32_t id : ids_of(tokenizer, data, size)) take(parser.push(id));
  take(parser.finish());
  return 0;
}
