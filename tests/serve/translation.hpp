// What tests of the APIs share: facts, one answer as the engine would tell it, and jobs and refusals as texts to compare.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "serve/api.hpp"
#include "serve/body.hpp"

namespace lapidary::serve {

// Ids count up from "id1".
inline Facts fixed_facts() {
  return {.names = {"pebble", "stone"}, .fingerprint = "fp_1", .vocab = 100, .thinks = false,
          .random_id = [count = std::make_shared<int>(0)] { return "id" + std::to_string(++*count); },
          .now_s = [] { return std::int64_t{1700000000}; }};
}

inline const Outcome kFixedOutcome{.usage = {.prompt_tokens = 12, .cached_tokens = 8, .completion_tokens = 20, .reasoning_tokens = 6},
                                   .seed = 42};

// A thought, a text, two calls.
inline std::vector<Delta> fixed_deltas() {
  using text::Value;
  return {{.reasoning = "Hm, \"Bern\""}, {.reasoning = " it is."}, {}, {.content = "I look"},
          {.content = " it\nup.", .calls = {{"weather", Value::Object{{"city", "Bern"}, {"days", 2}}}, {"clock", Value::Object{}}}}};
}

// All that the writer returns.
inline std::string told(AnswerWriter& writer, const std::vector<Delta>& deltas, const ChoiceEnd& end) {
  std::string all = writer.begin({.prompt_tokens = 12, .cached_tokens = 8});
  for (const Delta& delta : deltas) all += writer.add(delta);
  all += writer.end(end);
  return all + writer.finish(kFixedOutcome);
}
inline std::string told(AnswerWriter& writer) { return told(writer, fixed_deltas(), {.finish = Finish::tool_calls}); }

// The types and data of a stream's events; comments are left out.
inline std::vector<std::pair<std::string, text::Value>> events_of(std::string_view stream) {
  std::vector<std::pair<std::string, text::Value>> events;
  while (!stream.empty()) {
    const std::string_view one = stream.substr(0, stream.find("\n\n"));
    stream.remove_prefix(one.size() + 2);
    const std::size_t data = one.find("data: ");
    if (data == one.npos) continue;
    const std::string_view type = one.starts_with("event: ") ? one.substr(7, data - 8) : "";
    events.emplace_back(type, text::parse_json(one.substr(data + 6), "event"));
  }
  return events;
}

inline std::string prompt_of(const Job& job) { return text::to_json(std::get<ChatPrompt>(job.prompt).messages); }

// What a job asks for besides its messages, without what nobody asked for.
inline std::string described(const Job& job) {
  using text::Value;
  const engine::AnswerOptions& options = job.options;
  const engine::SamplingOptions& sampling = options.sampling;
  const ChatPrompt& prompt = std::get<ChatPrompt>(job.prompt);
  Value::Object all;
  const auto add = [&](std::string name, const auto& value) {
    if (value) all.emplace_back(std::move(name), Value(static_cast<double>(*value)));
  };
  const auto say = [&](std::string name, bool holds, Value value) {
    if (holds) all.emplace_back(std::move(name), std::move(value));
  };
  add("temperature", sampling.temperature);
  add("top_p", sampling.top_p);
  add("min_p", sampling.min_p);
  add("repetition", sampling.repetition);
  add("presence", sampling.presence);
  add("frequency", sampling.frequency);
  add("top_k", sampling.top_k);
  say("seed", sampling.seed.has_value(), static_cast<std::int64_t>(sampling.seed.value_or(0)));
  for (const auto& [id, bias] : sampling.bias) say("bias " + std::to_string(id), true, static_cast<double>(bias));
  say("max_tokens", options.max_tokens != 0, options.max_tokens);
  for (const std::string& stop : options.stops) say("stop", true, stop);
  say("schema", options.schema.has_value(), options.schema.value_or(Value()));
  say("tools", !prompt.tools.is_null(), prompt.tools);
  say("strict_tools", options.strict_tools.has_value(), options.strict_tools.value_or(Value()));
  say("no calls", options.calls == engine::AnswerOptions::Calls::none, true);
  say("calls", options.calls == engine::AnswerOptions::Calls::required, true);
  say("single_call", options.single_call, true);
  add("thinking_budget", options.thinking_budget_tokens);
  say("logprobs", options.logprobs != -1, options.logprobs);
  say("think", prompt.think, true);
  say("preserve_thinking", prompt.preserve_thinking, true);
  say("continues", prompt.continues, true);
  say("cache_salt", !job.cache_salt.empty(), job.cache_salt);
  return text::to_json(all);
}

// "status code param", or what `show` makes of the request.
template <class Read, class Show>
std::string outcome_of(Read read, std::string_view body, Show show) {
  try {
    return show(read(parse_body(body), fixed_facts()));
  } catch (const Refusal& refusal) {
    return std::to_string(refusal.status) + " " + std::string(refusal.code) + " " + refusal.param;
  }
}

}  // namespace lapidary::serve
