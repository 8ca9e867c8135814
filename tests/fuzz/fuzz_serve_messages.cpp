// Any bytes as the body of a response or a message: a Refusal that can be sent, or a job whose prompt can be rendered and whose answer
// is JSON.
#include <cstdint>
#include <string_view>

#include "fuzz/growth.hpp"
#include "serve/translation.hpp"

namespace {

using namespace lapidary;
using namespace lapidary::serve;
using test::check;
using test::check_prompt;
using test::check_reading;

constexpr const char* kWords[] = {
    "input", "messages", "role", "content", "user", "assistant", "system", "type", "text", "message", "input_text",
    "output_text", "function_call", "function_call_output", "call_id", "c", "name", "arguments", "{}", "output", "reasoning",
    "reasoning_text", "summary", "instructions", "tools", "function", "parameters", "input_schema", "strict", "object",
    "tool_choice", "none", "auto", "any", "tool", "required", "tool_use", "tool_result", "tool_use_id", "id", "is_error",
    "thinking", "signature", "enabled", "adaptive", "budget_tokens", "max_tokens", "max_output_tokens", "format", "json_schema",
    "schema", "output_config", "effort", "include", "message.output_text.logprobs", "top_logprobs", "stream", "stop_sequences",
    "seed", "store", "metadata", "cache_control", "image", "previous_response_id", "\xc3\xa9", ""};

void check_answer(const Request& request) {
  check_prompt(std::get<ChatPrompt>(request.job.prompt));
  const std::string sent = told(*request.writer);
  check(request.streams ? events_of(sent).size() > fixed_deltas().size() : text::parse_json(sent, "answer").find("usage") != nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = test::body_from({data, size}, kWords);
  if (!body) return 0;
  check_reading([&] { check_answer(read_response(*body, fixed_facts())); });
  check_reading([&] { check_answer(read_message(*body, fixed_facts())); });
  check_reading([&] { check_prompt(read_count_tokens(*body, fixed_facts())); });
  return 0;
}
