#include "serve/shared_fields.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace lapidary::serve {
namespace {

using text::Value;

constexpr std::int32_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMaxBiases = 1024, kMaxStops = 16, kMaxStopBytes = 256;

std::optional<float> read_float(Fields& fields, std::string_view name, double least, double most) {
  const auto number = fields.number(name, least, most);
  return number ? std::optional(static_cast<float>(*number)) : std::nullopt;
}

std::int32_t read_id(const std::string& key, const std::string& path, std::int32_t vocab) {
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  const bool is_plain = error == std::errc{} && end == key.data() + key.size() && std::to_string(id) == key;
  if (!is_plain || id < 0 || id >= vocab)
    refuse(path, "expected token ids from 0 to " + std::to_string(vocab - 1) + ", got " + shown(key));
  return id;
}

std::vector<std::pair<std::int32_t, float>> read_bias(Fields& fields, const Facts& facts) {
  std::vector<std::pair<std::int32_t, float>> bias;
  const Value* given = fields.object("logit_bias");
  if (!given) return bias;
  const std::string path = fields.path_of("logit_bias");
  if (given->object()->size() > kMaxBiases)
    refuse(path, "expected at most 1024 entries, got " + std::to_string(given->object()->size()));
  Fields entries(*given, path);
  for (const auto& [key, value] : *given->object()) {
    const std::int32_t id = read_id(key, path, facts.vocab);
    if (const auto number = read_float(entries, key, -100, 100)) bias.emplace_back(id, *number);
  }
  return bias;
}

void check_stop(const Value& stop, const std::string& path) {
  const std::string* text = stop.string();
  if (!text) refuse_value(path, "a text", &stop);
  if (text->empty() || text->size() > kMaxStopBytes)
    refuse(path, "expected 1 to 256 bytes, got " + std::to_string(text->size()));
}

}  // namespace

void read_model_name(Fields& fields, const Facts& facts) {
  const std::string* name = fields.text("model");
  const auto has = [&](std::string_view one) { return std::ranges::find(facts.names, one) != facts.names.end(); };
  if (!name || has(*name) || has("*")) return;
  throw Refusal{.status = 404, .code = "model_not_found", .message = "[model] expected " + facts.names.front() + ", got " + shown(*name),
                .param = "model"};
}

engine::SamplingOptions read_sampling(Fields& fields, const Facts& facts) {
  engine::SamplingOptions options;
  options.temperature = read_float(fields, "temperature", 0, 2);
  options.top_p = read_float(fields, "top_p", 0, 1);
  options.min_p = read_float(fields, "min_p", 0, 1);
  options.presence = read_float(fields, "presence_penalty", -2, 2);
  options.frequency = read_float(fields, "frequency_penalty", -2, 2);
  options.repetition = read_float(fields, "repetition_penalty", 0.01, 100);
  if (const auto top_k = fields.integer("top_k", 0, kMaxInt32)) options.top_k = static_cast<std::int32_t>(*top_k);
  if (const auto seed = fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()))
    options.seed = static_cast<std::uint64_t>(*seed);
  options.bias = read_bias(fields, facts);
  return options;
}

std::vector<std::string> read_stops(Fields& fields, std::string_view name) {
  const Value* given = fields.find(name);
  std::vector<std::string> stops;
  if (!given) return stops;
  const std::string path = fields.path_of(name);
  if (given->string()) {
    check_stop(*given, path);
    return {*given->string()};
  }
  if (!given->array()) refuse_value(path, "a text or a list of texts", given);
  if (given->array()->size() > kMaxStops) refuse_value(path, "at most 16 texts", given);
  for (const Value& stop : *given->array()) {
    check_stop(stop, path_at(path, stops.size()));
    stops.push_back(*stop.string());
  }
  return stops;
}

std::optional<std::int32_t> read_max_tokens(Fields& fields, std::string_view name) {
  const auto given = fields.integer(name, 1, std::numeric_limits<std::int64_t>::max());
  return given ? std::optional(static_cast<std::int32_t>(std::min<std::int64_t>(*given, kMaxInt32))) : std::nullopt;
}

std::vector<std::int32_t> read_ids(const Value::Array& given, const std::string& path, std::int32_t vocab) {
  std::vector<std::int32_t> ids;
  for (const Value& id : given) {
    if (!id.integer() || *id.integer() < 0 || *id.integer() >= vocab)
      refuse_value(path_at(path, ids.size()), "a token id from 0 to " + std::to_string(vocab - 1), &id);
    ids.push_back(static_cast<std::int32_t>(*id.integer()));
  }
  return ids;
}

std::string read_cache_salt(Fields& fields) {
  const std::string* salt = fields.text("cache_salt");
  return salt ? *salt : "";
}

std::optional<int> read_thinking_budget(Fields& fields) {
  const auto given = fields.integer("thinking_budget_tokens", 0, kMaxInt32);
  return given ? std::optional(static_cast<int>(*given)) : std::nullopt;
}

bool is_media(std::string_view type) {
  constexpr std::string_view kMedia[] = {"image", "image_url", "input_image", "audio", "input_audio", "video", "video_url",
                                         "file",  "input_file", "document"};
  return std::ranges::find(kMedia, type) != std::end(kMedia);
}

void refuse_media(const std::string& part_path, std::string_view type) {
  refuse(path_in(part_path, type), "not supported here, expected text, got " + std::string(type), kUnsupportedParameter);
}

Value read_content(const Value& content, const std::string& path, MediaItems* media) {
  if (content.string()) return content;
  if (!content.array()) refuse_value(path, "a text or a list of parts", &content);
  Value::Array parts;
  for (const Value& given : *content.array()) {
    Fields part(given, path_at(path, parts.size()), Absent::null_or_empty);
    const std::string& type = part.need_text("type");
    if (media && type == "image_url") {
      parts.push_back(read_image_url(part, *media));
    } else if (media && type == "input_audio") {
      parts.push_back(read_input_audio(part, *media));
    } else {
      if (is_media(type)) refuse_media(part.path(), type);
      part.need_one_of("type", {"text"});
      parts.push_back(Value::Object{{"type", "text"}, {"text", part.need_text("text")}});
    }
    part.finish();
  }
  return parts;
}

std::string joined_text(const Value& content, std::string_view between) {
  if (content.string()) return *content.string();
  std::string all;
  for (const Value& part : *content.array()) {
    if (&part != content.array()->data()) all += between;
    all += *part.find("text")->string();
  }
  return all;
}

void apply_format(const Value* format, const std::string& path, SchemaPlace place, Job& job) {
  if (!format) return;
  Fields fields(*format, path);
  const std::string type = fields.need_one_of("type", {"text", "json_object", "json_schema"});
  if (type == "json_object") job.options.schema = Value::Object{{"type", "object"}};
  const auto read_schema = [&](Fields& at) {
    at.any_text("name");
    at.any_text("description");
    at.boolean("strict");  // it always holds
    at.need("schema", "an object");
    job.options.schema = *at.object("schema");
    job.schema_path = at.path_of("schema");
  };
  if (type == "json_schema" && place == SchemaPlace::beside) read_schema(fields);
  if (type == "json_schema" && place == SchemaPlace::nested) {
    Fields inner(fields.need("json_schema", "an object"), fields.path_of("json_schema"));
    read_schema(inner);
    inner.finish();
  }
  fields.finish();
}

}  // namespace lapidary::serve
