// Any bytes as the body of a response or a message: a Refusal that can be sent, or a job whose prompt can be rendered and whose answer
// is JSON.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/growth.hpp"
#include "serve/translation.hpp"
#include "text/chat.hpp"

namespace {

using namespace lapidary;
using namespace lapidary::serve;

constexpr std::size_t kMaxErrorBytes = 2000;

constexpr const char* kWords[] = {
    "input", "messages", "role", "content", "user", "assistant", "system", "type", "text", "message", "input_text",
    "output_text", "function_call", "function_call_output", "call_id", "c", "name", "arguments", "{}", "output", "reasoning",
    "reasoning_text", "summary", "instructions", "tools", "function", "parameters", "input_schema", "strict", "object",
    "tool_choice", "none", "auto", "any", "tool", "required", "tool_use", "tool_result", "tool_use_id", "id", "is_error",
    "thinking", "signature", "enabled", "adaptive", "budget_tokens", "max_tokens", "max_output_tokens", "format", "json_schema",
    "schema", "output_config", "effort", "include", "message.output_text.logprobs", "top_logprobs", "stream", "stop_sequences",
    "seed", "store", "metadata", "cache_control", "image", "previous_response_id", "\xc3\xa9", ""};

void check(bool holds) {
  if (!holds) std::abort();
}

void check_prompt(const ChatPrompt& prompt) {
  const text::Value messages = text::checked_messages(prompt.messages);
  check(text::joined(text::render(messages, {}, {}, {.enable_thinking = prompt.think})).starts_with("<bos>"));
}

void check_answer(const Request& request) {
  check_prompt(std::get<ChatPrompt>(request.job.prompt));
  const std::string sent = told(*request.writer);
  check(request.streams ? events_of(sent).size() > fixed_deltas().size() : text::parse_json(sent, "answer").find("usage") != nullptr);
}

template <class Read>
void check_reading(Read read) {
  try {
    read();
  } catch (const Refusal& refusal) {
    check((refusal.status == 400 || refusal.status == 404) && refusal.message.starts_with("["));
    check(openai_error(refusal).size() < kMaxErrorBytes && anthropic_error(refusal, "req_1").size() < kMaxErrorBytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  text::Value body;
  if (size > 0 && data[0] != '{') {
    body = test::Growth({data, size}, kWords).object(6);
  } else {
    try {
      body = parse_body({reinterpret_cast<const char*>(data), size});
    } catch (const Refusal&) {
      return 0;
    }
  }
  check_reading([&] { check_answer(read_response(body, fixed_facts())); });
  check_reading([&] { check_answer(read_message(body, fixed_facts())); });
  check_reading([&] { check_prompt(read_count_tokens(body, fixed_facts())); });
  return 0;
}
