// How chat completions and completions are answered.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api.hpp"

namespace lapidary::serve {

struct AnswerShape {
  int choices = 1;  // in all
  bool streams = false, include_usage = false;
  bool logprobs = false;
};

// What their answers share: the head, how they end.
class OpenAiWriter : public AnswerWriter {
 public:
  std::string begin(const Usage&) override { return ""; }
  std::string end(const ChoiceEnd& end) override;
  std::string finish(const Outcome& outcome) override;
  std::string fail(const Refusal& refusal) override;

 protected:
  // `kind` begins the id; `object` and `chunk_object` name what is sent.
  OpenAiWriter(const Facts& facts, const AnswerShape& shape, std::string_view kind, std::string_view object, std::string_view chunk_object);

  std::string chunk(text::Value choice) const;
  // The choice of the last chunk, and the one of a whole answer.
  virtual text::Value last_choice(int index, std::string_view finish_reason) const = 0;
  virtual text::Value whole_choice(int index, std::string_view finish_reason) const = 0;

  const Facts facts_;
  const AnswerShape shape_;

 private:
  text::Value::Object head(text::Value::Array choices) const;

  const std::string id_, object_;
  const std::int64_t created_;
  std::vector<std::string_view> finish_reasons_;
};

std::unique_ptr<AnswerWriter> chat_writer(const Facts& facts, const AnswerShape& shape);

}  // namespace lapidary::serve
