// Any bytes as the body of a chat, a completion, or what is asked about tokens: a Refusal that can be sent, or a job whose answer is JSON.
#include <cstdint>
#include <string_view>

#include "fuzz/growth.hpp"
#include "serve/tokens_api.hpp"

namespace {

using namespace lapidary;
using namespace lapidary::serve;
using test::check;
using test::check_prompt;
using test::check_reading;

constexpr const char* kWords[] = {
    "messages", "role", "content", "user", "assistant", "system", "tool", "type", "text", "tool_calls", "id", "function", "name", "arguments", "{}",
    "{\"a\":1}", "tool_call_id", "reasoning", "prompt", "tools", "parameters", "strict", "description", "object", "properties", "tool_choice", "none",
    "required", "auto", "response_format", "json_object", "json_schema", "schema", "stream", "stream_options", "include_usage", "n", "logprobs",
    "top_logprobs", "stop", "seed", "logit_bias", "5", "temperature", "chat_template_kwargs", "enable_thinking", "continue_final_message",
    "prediction", "tokens", "with_pieces", "image_url", "max_tokens", "model", "pebble", "functions", "store", "\xc3\xa9", ""};

const Facts& facts() {
  static const Facts facts{.names = {"pebble"}, .fingerprint = "fp", .vocab = 1000, .thinks = false, .random_id = [] { return std::string("id"); },
                           .now_s = [] { return std::int64_t{1}; }};
  return facts;
}

void check_answer(Request request) {
  const int prompts = request.job.prompt.index() == 0 ? 1 : static_cast<int>(std::get<1>(request.job.prompt).size());
  if (const auto* prompt = std::get_if<ChatPrompt>(&request.job.prompt)) check_prompt(*prompt);
  std::string sent = request.writer->begin({});
  for (int i = 0; i < prompts * request.job.choices; ++i) {
    sent += request.writer->add({.index = i, .reasoning = "r", .content = "c", .calls = {{"f", text::Value::Object{}}}});
    sent += request.writer->end({.index = i});
  }
  sent += request.writer->finish({});
  check(request.streams ? sent.ends_with("data: [DONE]\n\n") : text::parse_json(sent, "answer").find("usage") != nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = test::body_from({data, size}, kWords);
  if (!body) return 0;
  check_reading([&] { check_answer(read_chat(*body, facts())); });
  check_reading([&] { check_answer(read_completion(*body, facts())); });
  check_reading([&] { read_tokenize(*body, facts()); });
  check_reading([&] { read_detokenize(*body, facts()); });
  check_reading([&] { check_prompt(read_apply_template(*body, facts())); });
  return 0;
}
