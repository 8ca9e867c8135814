// Bodies of requests, what they are read as, and what they are refused with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api.hpp"
#include "serve/body.hpp"
#include "support/cases.hpp"

namespace lapidary::test {

inline serve::Facts some_facts() {
  return {.names = {"pebble", "small"},
          .fingerprint = "fp_1",
          .vocab = 1000,
          .thinks = false,
          .random_id = [] { return std::string("R"); },
          .now_s = [] { return std::int64_t{1700000000}; }};
}

// What both APIs of OpenAI know, taken or refused.
inline constexpr const char* kOpenAiFields[] = {
    "model", "max_completion_tokens", "max_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "seed", "logit_bias", "stop", "n", "logprobs", "top_logprobs", "response_format",
    "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "reasoning_effort", "chat_template_kwargs",
    "continue_final_message", "prediction", "cache_salt", "thinking_budget_tokens", "user", "metadata", "safety_identifier",
    "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "store", "service_tier", "modalities", "verbosity",
    "functions", "function_call", "audio", "web_search_options", "moderation"};

template <class Call>
std::optional<serve::Refusal> refusal_from(Call&& call) {
  try {
    call();
  } catch (const serve::Refusal& refusal) {
    return refusal;
  }
  return std::nullopt;
}

// "param code" of the refusal, or "ok".
template <class Call>
std::string verdict_of(Call&& call) {
  const auto refusal = refusal_from(call);
  return refusal ? refusal->param + " " + (refusal->code.empty() ? "null" : std::string(refusal->code)) : "ok";
}

// A body with one more field, `field` as it stands in JSON: "\"n\": 2".
inline std::string with_field(const std::string& body, const std::string& field) {
  return body.substr(0, body.size() - 1) + (body.size() > 2 && !field.empty() ? ", " : "") + field + "}";
}

// The JSON behind each "data: " of a stream; what is no JSON is left out.
inline std::vector<text::Value> data_of(std::string_view stream) {
  std::vector<text::Value> all;
  for (std::size_t end; (end = stream.find("\n\n")) != stream.npos; stream.remove_prefix(end + 2)) {
    const std::string_view line = stream.substr(0, end);
    if (line.starts_with("data: {")) all.push_back(text::parse_json(line.substr(6), "stream"));
  }
  return all;
}

}  // namespace lapidary::test
