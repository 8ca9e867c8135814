#include "serve/events.hpp"

#include <cmath>

#include "text/utf8.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr double kMinusInfinity = -9999.0;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

Value::Object token_object(const TokenLogprob& token) {
  return {{"token", valid_text(token.bytes)}, {"logprob", logprob_number(token.logprob)}, {"bytes", bytes_list(token.bytes)}};
}

}  // namespace

std::string event(const Value& data) { return "data: " + text::to_json(data) + "\n\n"; }

std::string event(std::string_view type, const Value& data) { return "event: " + std::string(type) + "\n" + event(data); }

Value usage_object(const Usage& usage) {
  return Value::Object{
      {"prompt_tokens", usage.prompt_tokens},
      {"completion_tokens", usage.completion_tokens},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
      {"prompt_tokens_details", Value::Object{{"cached_tokens", usage.cached_tokens}}},
      {"completion_tokens_details", Value::Object{{"reasoning_tokens", usage.reasoning_tokens},
                                                  {"accepted_prediction_tokens", usage.accepted_drafts},
                                                  {"rejected_prediction_tokens", usage.rejected_drafts}}}};
}

Value timings_object(const Outcome& outcome) {
  const Usage& usage = outcome.usage;
  return Value::Object{{"prompt_n", usage.prompt_tokens - usage.cached_tokens},
                       {"cache_n", usage.cached_tokens},
                       {"prompt_ms", outcome.prompt_ms},
                       {"predicted_n", usage.completion_tokens},
                       {"predicted_ms", outcome.predicted_ms},
                       {"predicted_per_second", outcome.predicted_per_second},
                       {"draft_n", usage.accepted_drafts + usage.rejected_drafts},
                       {"draft_n_accepted", usage.accepted_drafts}};
}

std::string valid_text(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const text::Utf8Step step = text::utf8_step(bytes);
    text += step.state == text::Utf8::whole ? bytes.substr(0, step.bytes) : kReplacement;
    bytes.remove_prefix(step.bytes);
  }
  return text;
}

double logprob_number(float logprob) { return std::isfinite(logprob) ? logprob : kMinusInfinity; }

Value bytes_list(std::string_view bytes) {
  Value::Array list;
  for (const char byte : bytes) list.push_back(static_cast<int>(static_cast<unsigned char>(byte)));
  return list;
}

Value logprob_object(const LogprobEntry& entry) {
  Value::Array top;
  for (const TokenLogprob& token : entry.top) top.push_back(token_object(token));
  Value::Object object = token_object(entry.chosen);
  object.emplace_back("top_logprobs", std::move(top));
  return object;
}

}  // namespace lapidary::serve
