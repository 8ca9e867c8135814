// What a server is told when it starts.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "link/plan.hpp"
#include "serve/access.hpp"
#include "serve/fetch.hpp"
#include "serve/http.hpp"

namespace lapidary::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                     // 0 = a free one
  std::string unix_path{};             // instead of a port
  std::vector<int> handed_over{};      // listening sockets, instead of both
  std::vector<std::string> aliases{};  // names of the model, instead of its folder's; "*": any
  AccessRules access{};
  int queue = 64;                      // requests that wait
  double queue_timeout_s = 60, request_timeout_s = 600, drain_timeout_s = 30;  // of the second 0 = none
  double silence_s = 10;               // then a stream says that it is there
  HttpLimits http{};
  std::optional<std::size_t> prefix_cache_bytes{};  // none = K/V of two sessions
  std::size_t prefix_cache_bytes_of(const link::MemoryPlan& plan) const { return prefix_cache_bytes.value_or(2 * plan.session_bytes); }
  bool shares_prefixes = false;        // among keys
  bool has_page = true;
  bool thinks = false;                 // unless a request says otherwise
  std::shared_ptr<const Fetcher> fetcher{};  // none = an address is never fetched
};

}  // namespace lapidary::serve
