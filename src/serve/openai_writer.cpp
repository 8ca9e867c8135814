#include "serve/openai_writer.hpp"

#include "serve/events.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

std::string_view reason_of(Finish finish) {
  switch (finish) {
    case Finish::stop: case Finish::stop_text: return "stop";
    case Finish::length: return "length";
    case Finish::tool_calls: return "tool_calls";
  }
  return "";
}

}  // namespace

OpenAiWriter::OpenAiWriter(const Facts& facts, const AnswerShape& shape, std::string_view kind, std::string_view object,
                           std::string_view chunk_object)
    : facts_(facts), shape_(shape), id_(std::string(kind) + facts.random_id()), object_(shape.streams ? chunk_object : object),
      created_(facts.now_s()), finish_reasons_(static_cast<std::size_t>(shape.choices)) {}

Value::Object OpenAiWriter::head(Value::Array choices) const {
  return {{"id", id_},
          {"object", object_},
          {"created", created_},
          {"model", facts_.names.front()},
          {"system_fingerprint", facts_.fingerprint},
          {"choices", std::move(choices)}};
}

std::string OpenAiWriter::chunk(Value choice) const {
  Value::Object data = head({std::move(choice)});
  if (shape_.include_usage) data.emplace_back("usage", Value());
  return event(data);
}

std::string OpenAiWriter::end(const ChoiceEnd& end) {
  finish_reasons_[static_cast<std::size_t>(end.index)] = reason_of(end.finish);
  return "";  // the chunk that says so has the seed, which is known when all choices have ended
}

std::string OpenAiWriter::finish(const Outcome& outcome) {
  const Value seed = signed_seed(outcome.seed), timings = timings_object(outcome);
  std::string events;
  Value::Array choices;
  for (int i = 0; i < shape_.choices; ++i) {
    const std::string_view reason = finish_reasons_[static_cast<std::size_t>(i)];
    if (!shape_.streams) {
      choices.push_back(whole_choice(i, reason));
      continue;
    }
    Value::Object data = head({last_choice(i, reason)});
    if (shape_.include_usage) data.emplace_back("usage", Value());
    data.emplace_back("seed", seed);
    data.emplace_back("timings", timings);
    events += event(data);
  }
  Value::Object last = head(std::move(choices));
  last.emplace_back("usage", usage_object(outcome.usage));
  if (shape_.streams) {
    if (shape_.include_usage) events += event(last);
    return events.append(kDone);
  }
  last.emplace_back("seed", seed);
  last.emplace_back("timings", timings);
  return text::to_json(last);
}

std::string OpenAiWriter::fail(const Refusal& refusal) { return "data: " + openai_error(refusal) + "\n\n"; }

}  // namespace lapidary::serve
