// Requests for answers, all that are not over: who waits, who runs, who does not read, who has left. On the thread with the sockets, to
// which the worker and the engine post what they have done.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "serve/call.hpp"
#include "serve/metrics.hpp"
#include "serve/prepare.hpp"
#include "serve/request_log.hpp"
#include "serve/server_options.hpp"
#include "serve/streams.hpp"

namespace lapidary::serve {

class Calls {
 public:
  struct Uses {  // all must outlive it
    const ServerOptions& options;
    const engine::Model& model;
    const Facts& facts;
    HttpServer& http;
    Readers& readers;
    Streams& streams;
    Metrics& metrics;
    RequestLog& log;
  };
  // `on_end` is called whenever one is over.
  Calls(const Uses& uses, std::function<void()> on_end) : uses_(uses), on_end_(std::move(on_end)) {}

  // Besides `others`, which wait for the readers.
  bool may_wait(int others) const;
  void begin(std::shared_ptr<Call> call, std::string body);
  void hear(const std::vector<News>& news);
  // Refuses those who wait, and the others when their time is up. Nobody begins after it.
  void drain();

  std::size_t size() const { return all_.size(); }
  int running() const;

 private:
  void submit(const std::shared_ptr<Call>& call, Request request);
  void hear(const std::shared_ptr<Call>& call, const News& news);
  void look_at_reader(Call& call);
  void keep_alive(const std::shared_ptr<Call>& call);
  void cancel(const std::shared_ptr<Call>& call, std::string_view reason, const std::optional<Refusal>& refusal);
  void close(const std::shared_ptr<Call>& call, const Done& done = {});

  const Uses uses_;
  const std::function<void()> on_end_;
  std::set<std::shared_ptr<Call>> all_;
  std::unordered_map<const Ticket*, std::shared_ptr<Call>> by_ticket_;
};

}  // namespace lapidary::serve
