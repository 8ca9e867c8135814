// What a job needs before it can be computed: prompts as tokens, and grammars that compile. It takes a while, and has a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "serve/job.hpp"
#include "serve/ticket.hpp"

namespace lapidary::serve {

// `cancelled`: what lies elsewhere need not be fetched any more.
engine::Prompt prompt_of(const engine::Model& model, const ChatPrompt& chat, const std::atomic<bool>& cancelled);
// Refuses what does not leave room for a token.
std::vector<engine::Prompt> prompts_of(const engine::Model& model, const Job& job, const std::atomic<bool>& cancelled);

class GrammarCache;
// All of a ticket but its space in the prefix cache. A seed that was not given is drawn.
void prepare(const engine::Model& model, Job job, GrammarCache& grammars, Ticket& ticket);

// Those of the last requests: agents ask for the same again and again. On one thread.
class GrammarCache {
 public:
  // Of options that have a schema or strict tools, not both.
  engine::Grammars get(const engine::Model& model, const engine::AnswerOptions& options);

 private:
  static constexpr std::size_t kMost = 64;
  std::deque<std::pair<std::string, engine::Grammars>> kept_;  // by what they were compiled from, those used last in front
};

// Calls in the order they come, on a thread of its own.
class Worker {
 public:
  Worker();
  ~Worker();  // drops what has not begun
  void post(std::function<void()> call);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  bool stopping_ = false;
  std::thread thread_;
};

// Who reads the bodies of requests. Those with an address that may be fetched have a thread of their own: nobody else waits for what
// lies elsewhere.
class Readers {
 public:
  explicit Readers(const Fetcher* fetcher);  // null: nothing is fetched
  // Calls read(body, grammars) once, on a thread of theirs. It moves what belongs to the HTTP loop back to it: none of that may end here.
  void post(std::string body, std::function<void(const std::string&, GrammarCache&)> read);

 private:
  const Fetcher* fetcher_;
  GrammarCache grammars_, grammars_of_fetching_;
  std::optional<Worker> fetching_;
  Worker worker_;  // it ends first, as it posts to the other
};

}  // namespace lapidary::serve
