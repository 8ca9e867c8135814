// An answer of `lapidary serve`, as a stream of chat completion chunks.
#include <cstdio>
#include <limits>
#include <optional>

#include "checkpoint/environment.hpp"
#include "cli/answer.hpp"
#include "cli/answerer.hpp"
#include "cli/progress.hpp"
#include "serve/client.hpp"
#include "serve/event_reader.hpp"
#include "text/base64.hpp"

namespace lapidary::cli {
namespace {

using text::Value;

constexpr const char* kServerContextAdvice = "; /reset starts again, --context of the server makes room for more";
constexpr std::string_view kDone = "[DONE]";

const Value* field_of(const Value* object, std::string_view name) { return object ? object->find(name) : nullptr; }
std::string string_of(const Value* value) { return value && value->string() ? *value->string() : ""; }
std::int64_t integer_of(const Value* value) { return value && value->integer() ? *value->integer() : 0; }
double number_of(const Value* value) { return value && value->real() ? *value->real() : static_cast<double>(integer_of(value)); }

// As the server says it: "[where] what".
[[noreturn]] void fail_as(const Value& error, const std::string& url) {
  const std::string message = string_of(error.find("message"));
  const std::size_t end = message.find("] ");
  if (!message.starts_with('[') || end == message.npos) fail(ErrorKind::io, url, message.empty() ? "refused without a reason" : message);
  fail(ErrorKind::io, message.substr(1, end - 1), message.substr(end + 2));
}

[[noreturn]] void fail_as(int status, const std::string& body, const std::string& url) {
  Value answer;
  try {
    answer = text::parse_json(body, url);
  } catch (const Error&) {
    // Not one of ours.
  }
  if (const Value* error = answer.find("error")) fail_as(*error, url);
  fail(ErrorKind::io, url, "expected an answer of lapidary serve, got status " + std::to_string(status));
}

// The number that was typed, not the float nearest to it: limits are checked.
Value typed(float number) {
  constexpr int kMostDigits = std::numeric_limits<float>::max_digits10;
  double shortest = number;
  for (int digits = kMostDigits; digits > 0; --digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(number));
    const double read = text::read_number(text).value_or(number);
    if (static_cast<float>(read) != number) break;
    shortest = read;
  }
  return shortest;
}

void add_sampling(const engine::SamplingOptions& sampling, Value::Object& body) {
  const auto add = [&](const char* name, const std::optional<float>& value) {
    if (value) body.emplace_back(name, typed(*value));
  };
  add("temperature", sampling.temperature);
  add("top_p", sampling.top_p);
  add("min_p", sampling.min_p);
  add("repetition_penalty", sampling.repetition);
  add("presence_penalty", sampling.presence);
  add("frequency_penalty", sampling.frequency);
  if (sampling.top_k) body.emplace_back("top_k", *sampling.top_k);
  if (sampling.seed) body.emplace_back("seed", static_cast<std::int64_t>(*sampling.seed));
  Value::Object bias;
  for (const auto& [id, value] : sampling.bias) bias.emplace_back(std::to_string(id), typed(value));
  if (!bias.empty()) body.emplace_back("logit_bias", std::move(bias));
}

// Of the conversation's calls, as the API has them: with ids, and arguments as JSON in a text.
Value calls_for_server(const Value::Array& calls) {
  Value::Array all;
  for (const Value& call : calls) {
    const Value* function = call.find("function");
    const Value* arguments = field_of(function, "arguments");
    const std::string id = string_of(call.find("id"));
    all.push_back(Value::Object{
        {"id", id.empty() ? "call_" + std::to_string(all.size()) : id},
        {"type", "function"},
        {"function", Value::Object{{"name", string_of(field_of(function, "name"))},
                                   {"arguments", !arguments ? "{}" : arguments->string() ? *arguments->string() : text::to_json(*arguments)}}}});
  }
  return all;
}

// As parts of the API. It has none for videos.
Value part_for_server(const MediaFile& file) {
  const std::string data = text::to_base64(file.bytes);
  if (file.kind == MediaKind::audio) return Value::Object{{"type", "input_audio"}, {"input_audio", Value::Object{{"data", data}, {"format", "wav"}}}};
  return Value::Object{{"type", "image_url"}, {"image_url", Value::Object{{"url", "data:application/octet-stream;base64," + data}}}};
}

Value content_for_server(const Value::Array& parts, MediaFiles::const_iterator& file) {
  Value::Array all;
  for (const Value& part : parts) all.push_back(part.find("type") && *part.find("type") != Value("text") ? part_for_server(**file++) : part);
  return all;
}

Value messages_for_server(const MediaMessages& asked) {
  Value::Array all;
  auto file = asked.media.begin();
  for (const Value& message : *asked.messages.array()) {
    Value::Object fields = *message.object();
    for (auto& [name, value] : fields) {
      if (name == "tool_calls" && value.array()) value = calls_for_server(*value.array());
      if (name == "content" && value.array()) value = content_for_server(*value.array(), file);
    }
    all.push_back(std::move(fields));
  }
  return all;
}

std::string body_of(const Answerer::Question& question) {
  const engine::AnswerOptions& options = question.options;
  Value::Object body{{"messages", messages_for_server(question.asked)}, {"stream", true},
                     {"chat_template_kwargs", Value::Object{{"enable_thinking", question.think}}}};
  if (question.tools.truthy()) body.emplace_back("tools", question.tools);
  if (options.max_tokens > 0) body.emplace_back("max_tokens", options.max_tokens);
  if (!options.stops.empty()) body.emplace_back("stop", Value::Array(options.stops.begin(), options.stops.end()));
  // The server's own json_object is an object at the root; --json-mode takes any JSON.
  if (options.schema || options.json)
    body.emplace_back("response_format", Value::Object{{"type", "json_schema"},
                                                       {"json_schema", Value::Object{{"name", "answer"},
                                                                                     {"schema", options.schema.value_or(Value::Object{})}}}});
  add_sampling(options.sampling, body);
  return text::to_json(body);
}

// Chunks in, what they say printed and put together.
class ChunkReader {
 public:
  ChunkReader(Printer& printer, const std::string& url) : printer_(printer), url_(url) {}

  void read(const std::string& data) {
    if (data == kDone) {
      is_whole_ = true;
      return;
    }
    const Value chunk = text::parse_json(data, url_);
    if (const Value* error = chunk.find("error")) fail_as(*error, url_);
    const Value* choices = chunk.find("choices");
    if (!choices || !choices->array() || choices->array()->empty()) return;
    const Value& choice = choices->array()->front();
    if (const Value* delta = choice.find("delta")) read_delta(*delta);
    if (const std::string reason = string_of(choice.find("finish_reason")); !reason.empty()) {
      end_call();
      finish_reason_ = reason;
      last_ = chunk;
    }
  }

  bool is_whole() const { return is_whole_; }
  const std::string& finish_reason() const { return finish_reason_; }
  const Value& last() const { return last_; }  // the chunk with the finish_reason
  const Answerer::Reply& reply() const { return reply_; }

 private:
  void read_delta(const Value& delta) {
    engine::Event event{.reasoning = string_of(delta.find("reasoning_content")), .content = string_of(delta.find("content"))};
    if (!event.reasoning.empty() || !event.content.empty()) {
      end_call();
      reply_.content += event.content;
      printer_.print(event);
    }
    const Value* calls = delta.find("tool_calls");
    if (!calls || !calls->array()) return;
    for (const Value& part : *calls->array()) {
      const Value* function = part.find("function");
      if (part.find("id")) {
        end_call();
        call_ = Call{string_of(field_of(function, "name")), ""};
      }
      if (call_) call_->arguments += string_of(field_of(function, "arguments"));
    }
  }

  // It is whole when something else begins.
  void end_call() {
    if (!call_) return;
    reply_.calls.push_back({call_->name, text::parse_json(call_->arguments, url_)});
    call_.reset();
    printer_.print({.calls = {reply_.calls.back()}});
  }

  struct Call {
    std::string name, arguments;
  };
  Printer& printer_;
  const std::string& url_;
  std::optional<Call> call_;
  Answerer::Reply reply_;
  bool is_whole_ = false;
  std::string finish_reason_;
  Value last_;
};

engine::Ending ending_of(const std::string& finish_reason, std::int64_t tokens, std::int32_t max_tokens) {
  using engine::Ending;
  if (finish_reason.empty()) return Ending::cancelled;
  if (finish_reason == "tool_calls") return Ending::tool_call;
  if (finish_reason != "length") return Ending::stop;
  return max_tokens > 0 && tokens >= max_tokens ? Ending::max_tokens : Ending::context;
}

class RemoteAnswerer final : public Answerer {
 public:
  RemoteAnswerer(const std::string& url, bool quiet) : client_(url, variable("LAPIDARY_API_KEY")), quiet_(quiet) {
    InterruptGuard guard;
    std::string body;
    const auto status = client_.ask("/props", "", guard.cancelled(), [&](int, std::string_view piece) { body += piece; });
    if (!status) fail(ErrorKind::io, url, "was not waited for");
    if (*status != kOk) fail_as(*status, body, url);
    const Value props = text::parse_json(body, url);
    context_tokens_ = static_cast<std::int32_t>(integer_of(props.find("n_ctx")));
    if (context_tokens_ <= 0) fail(ErrorKind::io, url, "expected lapidary serve, got another server");
  }

  std::int32_t context_tokens() const override { return context_tokens_; }

  // What the bytes are is the server's to say.
  void look_at(const std::shared_ptr<const MediaFile>& file) override {
    if (file->kind == MediaKind::video) fail(ErrorKind::unsupported, file->name, "expected a picture or a sound with --connect, got a video");
  }

  Reply answer(const Question& question, Printer& printer) override {
    InterruptGuard guard;
    StatusLine line(quiet_);
    line.show("waiting for the server");
    serve::EventReader events;
    ChunkReader chunks(printer, client_.url());
    std::string refusal;
    const auto status = client_.ask("/v1/chat/completions", body_of(question), guard.cancelled(), [&](int code, std::string_view piece) {
      if (code != kOk) {
        refusal += piece;
        return;
      }
      for (const serve::ServerEvent& event : events.push(piece)) {
        line.clear();
        chunks.read(event.data);
      }
    });
    line.clear();
    if (status && *status != kOk) fail_as(*status, refusal, client_.url());
    if (status && !chunks.is_whole()) fail(ErrorKind::io, client_.url(), "broke off, expected [DONE] at the end of the answer, got none");
    printer.finish();

    const Value* timings = chunks.last().find("timings");
    const std::int64_t tokens = integer_of(field_of(timings, "predicted_n"));
    const engine::Ending ending = ending_of(chunks.finish_reason(), tokens, question.options.max_tokens);
    tell_cut_short({.ending = ending, .tokens = static_cast<std::size_t>(tokens), .context_tokens = context_tokens_,
                    .advice = kServerContextAdvice});
    if (question.stats && timings) print_timings(*timings, ending, integer_of(chunks.last().find("seed")));
    return chunks.reply();
  }

 private:
  static constexpr int kOk = 200;

  static void print_timings(const Value& timings, engine::Ending ending, std::int64_t seed) {
    const auto count = [&](const char* name) { return static_cast<long long>(integer_of(timings.find(name))); };
    const double prompt_s = number_of(timings.find("prompt_ms")) / 1e3;
    std::fprintf(stderr,
                 "first token %.3f s\nprompt %lld tokens (%lld reused), %.1f tok/s\ndecode %lld tokens, %.1f tok/s\nstop: %s, seed %llu\n"
                 "drafts %lld, accepted %lld\n",
                 prompt_s, count("prompt_n") + count("cache_n"), count("cache_n"),
                 prompt_s > 0 ? static_cast<double>(count("prompt_n")) / prompt_s : 0.0, count("predicted_n"),
                 number_of(timings.find("predicted_per_second")), std::string(name_of(ending)).c_str(),
                 static_cast<unsigned long long>(seed), count("draft_n"), count("draft_n_accepted"));
  }

  const serve::Client client_;
  const bool quiet_;
  std::int32_t context_tokens_ = 0;
};

}  // namespace

std::unique_ptr<Answerer> remote_answerer(const std::string& url, bool quiet) { return std::make_unique<RemoteAnswerer>(url, quiet); }

}  // namespace lapidary::cli
