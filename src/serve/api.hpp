// What an API is: a reader of request bodies, and a writer that says in its words what the engine gives. Pure: JSON in, Job or
// Refusal out; events in, text out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/job.hpp"

namespace lapidary::serve {

// What APIs know of the server.
struct Facts {
  std::vector<std::string> names;      // of the model; answers carry the first. "*" among them takes any
  std::string fingerprint;             // equal ones promise equal bytes
  std::int32_t vocab = 0;              // ids are below it
  bool thinks = false;                 // unless a request says otherwise
  const Fetcher* fetcher = nullptr;    // of addresses in requests; null: they are refused
  std::function<std::string()> random_id;   // 24 or more letters and digits
  std::function<std::int64_t()> now_s;      // since 1970
};

// One per answer. Streamed: every call returns whole events to send now, maybe none. Otherwise all but finish() return nothing, and
// finish() the body.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual std::string begin(const Usage& prompt) = 0;  // the prompt has been read, its tokens are known
  virtual std::string add(const Delta& delta) = 0;
  virtual std::string end(const ChoiceEnd& end) = 0;   // of a choice
  virtual std::string finish(const Outcome& outcome) = 0;
  virtual std::string keep_alive() { return ": waiting\n\n"; }  // while there is nothing to say
  // Streamed: what is sent when it ends before its time. (Before the first byte refusals have a status instead.)
  virtual std::string fail(const Refusal& refusal) = 0;
};

struct Request {
  Job job;
  bool streams = false;
  std::unique_ptr<AnswerWriter> writer;
};

// `body`: the object of a request, as parse_body() reads it.
Request read_chat(const text::Value& body, const Facts& facts);         // /v1/chat/completions
Request read_completion(const text::Value& body, const Facts& facts);   // /v1/completions
Request read_response(const text::Value& body, const Facts& facts);     // /v1/responses
Request read_message(const text::Value& body, const Facts& facts);      // /v1/messages
// /v1/messages/count_tokens: the prompt whose tokens are to be counted.
ChatPrompt read_count_tokens(const text::Value& body, const Facts& facts);

// The body of an error: OpenAI's shape, or Anthropic's under /v1/messages.
std::string openai_error(const Refusal& refusal);
std::string anthropic_error(const Refusal& refusal, std::string_view request_id);  // empty = null

}  // namespace lapidary::serve
