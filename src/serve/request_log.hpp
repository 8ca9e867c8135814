// One line for each request, and a count: nothing that a client wrote.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "serve/call.hpp"
#include "serve/metrics.hpp"

namespace lapidary::serve {

class RequestLog {
 public:
  using Say = std::function<void(const std::string&)>;
  // `metrics` must outlive it.
  RequestLog(Say say, Metrics& metrics) : say_(std::move(say)), metrics_(metrics) {}

  void add(const Head& head, const RouteInfo& route, const std::string& key_name, int status, const std::string& rest = "");
  void add(Call& call, const Done& done);
  // Our own mistake: what happened stands here, under the request's id. Returns what the client is told.
  Refusal mishap(const std::string& request_id, const std::string& what);

 private:
  const Say say_;
  Metrics& metrics_;
};

}  // namespace lapidary::serve
