// Who answers in a conversation: a model that is loaded here, or a server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/loading.hpp"
#include "cli/media.hpp"
#include "cli/printer.hpp"
#include "engine/answer.hpp"

namespace lapidary::cli {

class Answerer {
 public:
  struct Question {
    const MediaMessages& asked;
    const text::Value& tools;  // null = none
    bool think = false, stats = false;
    const engine::AnswerOptions& options;
  };
  struct Reply {
    std::string content{};
    std::vector<text::ToolCall> calls{};
  };

  virtual ~Answerer() = default;
  virtual std::int32_t context_tokens() const = 0;
  // Fails where this cannot be part of a question.
  virtual void look_at(const std::shared_ptr<const MediaFile>& file) = 0;
  // Prints the answer as it comes, and then to stderr what cut it short and, if that is asked for, statistics. Ctrl-C ends it.
  virtual Reply answer(const Question& question, Printer& printer) = 0;
};

std::unique_ptr<Answerer> local_answerer(const EngineFlags& flags);
// The one at an address as serve::place_of() reads it. LAPIDARY_API_KEY is the key. Fails where no server answers.
std::unique_ptr<Answerer> remote_answerer(const std::string& url, bool quiet);

}  // namespace lapidary::cli
