#include "serve/openai_fields.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr int kMaxChoices = 8;

std::string read_prediction(Fields& body) {
  const Value* given = body.object("prediction");
  if (!given) return "";
  Fields prediction(*given, body.path_of("prediction"));
  prediction.need_one_of("type", {"content"});
  const std::string path = prediction.path_of("content");
  const Value content = read_content(prediction.need("content", "a text or a list of parts"), path);
  prediction.finish();
  return joined_text(content);
}

void read_without_effect(Fields& body) {
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}) body.any_text(name);
  for (const char* name : {"metadata", "prompt_cache_options"}) body.any_object(name);
  body.without_effect("store", {false});
  body.without_effect("service_tier", {"auto", "default"});
  body.without_effect("modalities", {Value::Array{"text"}});
  body.without_effect("verbosity", {"medium"});
}

void refuse_what_we_lack(Fields& body) {
  body.refused("functions", "functions are declared in `tools`");
  body.refused("function_call", "functions are chosen by `tools` and `tool_choice`");
  body.refused("audio", "answers are text");
  body.refused("web_search_options", "nothing is searched");
  body.refused("moderation", "nothing is moderated");
}

}  // namespace

void read_stream(Fields& body, AnswerShape& shape) {
  shape.streams = body.boolean("stream").value_or(false);
  const Value* given = body.object("stream_options");
  if (!given) return;
  if (!shape.streams) refuse("stream_options", "expected `stream` to be true, got options without it");
  Fields options(*given, "stream_options");
  shape.include_usage = options.boolean("include_usage").value_or(false);
  options.boolean("include_obfuscation");  // nothing is padded
  options.finish();
}

void read_common(Fields& body, const Facts& facts, Job& job) {
  read_model_name(body, facts);
  job.options.sampling = read_sampling(body, facts);
  job.options.stops = read_stops(body, "stop");
  job.choices = static_cast<int>(body.integer("n", 1, kMaxChoices).value_or(1));
  job.prediction = read_prediction(body);
  job.cache_salt = read_cache_salt(body);
  read_without_effect(body);
  refuse_what_we_lack(body);
}

}  // namespace lapidary::serve
