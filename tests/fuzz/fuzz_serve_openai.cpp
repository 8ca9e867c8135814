// Any bytes as the body of a chat, a completion, or what is asked about tokens: a Refusal that can be sent, or a job whose answer is JSON.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/growth.hpp"
#include "serve/body.hpp"
#include "serve/tokens_api.hpp"
#include "text/chat.hpp"

namespace {

using namespace lapidary;
using namespace lapidary::serve;

constexpr const char* kWords[] = {
    "messages", "role", "content", "user", "assistant", "system", "tool", "type", "text", "tool_calls", "id", "function", "name", "arguments", "{}",
    "{\"a\":1}", "tool_call_id", "reasoning", "prompt", "tools", "parameters", "strict", "description", "object", "properties", "tool_choice", "none",
    "required", "auto", "response_format", "json_object", "json_schema", "schema", "stream", "stream_options", "include_usage", "n", "logprobs",
    "top_logprobs", "stop", "seed", "logit_bias", "5", "temperature", "chat_template_kwargs", "enable_thinking", "continue_final_message",
    "prediction", "tokens", "with_pieces", "image_url", "max_tokens", "model", "pebble", "functions", "store", "\xc3\xa9", ""};

void check(bool holds) {
  if (!holds) std::abort();
}

const Facts& facts() {
  static const Facts facts{.names = {"pebble"}, .fingerprint = "fp", .vocab = 1000, .thinks = false, .random_id = [] { return std::string("id"); },
                           .now_s = [] { return std::int64_t{1}; }};
  return facts;
}

// What was read can be rendered, but for what is in the schemas of tools.
void check_prompt(const ChatPrompt& prompt) {
  const text::Value messages = text::checked_messages(prompt.messages);
  check(text::joined(text::render(messages, {}, {}, {.enable_thinking = prompt.think})).starts_with("<bos>"));
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

template <class Read>
void check_reading(Read read) {
  try {
    read();
  } catch (const Refusal& refusal) {
    const std::string error = openai_error(refusal);
    check((refusal.status == 400 || refusal.status == 404) && refusal.message.starts_with("[") && error.size() < 2000);
    check(text::parse_json(error, "error").find("error") != nullptr);
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
  check_reading([&] { check_answer(read_chat(body, facts())); });
  check_reading([&] { check_answer(read_completion(body, facts())); });
  check_reading([&] { read_tokenize(body, facts()); });
  check_reading([&] { read_detokenize(body, facts()); });
  check_reading([&] { check_prompt(read_apply_template(body, facts())); });
  return 0;
}
