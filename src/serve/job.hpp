// What a request asks of the engine, whichever API carried it, and what comes back. The APIs translate from JSON to a Job and from
// these events to JSON; they see neither a socket nor a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/answer.hpp"
#include "text/output_parser.hpp"
#include "text/value.hpp"

namespace lapidary::serve {

class Fetcher;

// A picture or a sound of a message: a file, to be decoded by whoever makes the prompt.
struct MediaItem {
  text::Media::Kind kind{};
  std::string bytes{};
  std::int32_t image_tokens = 0;  // the most of a picture; 0 = what the model was loaded with
  std::string path{};             // of the field that brought it
  std::string url{};              // where the bytes lie, if there is a fetcher
  const Fetcher* fetcher = nullptr;
};

// A conversation for the chat template.
struct ChatPrompt {
  text::Value messages;            // as text::render() takes them
  text::Value tools;               // likewise; null = none
  bool think = false;
  bool preserve_thinking = false;
  bool continues = false;          // the last message is the assistant's: its text is gone on with
  std::vector<MediaItem> media{};  // one for each part of the messages that is one, in their order
};

// A text, or ids, as they are. <bos> goes before a text unless `parse_special` found one.
struct PlainPrompt {
  std::variant<std::string, std::vector<std::int32_t>> content;
  bool parse_special = false;
};

struct Job {
  std::variant<ChatPrompt, std::vector<PlainPrompt>> prompt;
  engine::AnswerOptions options{};  // of every choice; its sampling has the stream of the first
  std::string schema_path{};        // of the field that options.schema came from
  int choices = 1;                  // of each prompt; choice i is sampled with noise stream i
  std::string prediction{};         // a text that drafts may be found in
  std::string cache_salt{};         // prefixes are shared with requests of the same salt only
};

// What a client is told instead of an answer. Thrown by whoever reads requests.
struct Refusal {
  int status = 400;
  std::string_view code{};  // OpenAI's: "invalid_value"; empty = null
  std::string message{};    // "[where] what, expected X, got Y"
  std::string param{};     // path of the field at fault: "messages[2].content"; empty = null
  int retry_after_s = 0;   // > 0: the header
};

// In a catch block: what a request is refused with that led to it. Of 500, which is our own mistake, the message is for the log.
Refusal caught();

// Of one token of the visible text.
struct TokenLogprob {
  std::int32_t id = 0;
  std::string bytes;       // that it stands for
  float logprob = 0;       // may be minus infinity
};
struct LogprobEntry {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the likeliest first
};

// What has become certain of one choice. Index: prompt x choices + choice.
struct Delta {
  int index = 0;
  std::string reasoning{}, content{};
  std::vector<text::ToolCall> calls{};
  std::vector<LogprobEntry> logprobs{};  // of the tokens of `content`; empty unless asked for
};

enum class Finish : std::uint8_t { stop, stop_text, length, tool_calls };
struct ChoiceEnd {
  int index = 0;
  Finish finish = Finish::stop;
  std::string stop_text{};  // that was matched
};

struct Usage {
  std::int64_t prompt_tokens = 0, cached_tokens = 0;  // the first includes the second
  std::int64_t completion_tokens = 0, reasoning_tokens = 0;
  std::int64_t accepted_drafts = 0, rejected_drafts = 0;
};

// Of all choices together, when they have ended.
struct Outcome {
  Usage usage{};
  std::uint64_t seed = 0;
  double prompt_ms = 0, predicted_ms = 0;
  double predicted_per_second = 0;  // after the first token
};

}  // namespace lapidary::serve
