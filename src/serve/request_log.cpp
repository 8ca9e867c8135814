#include "serve/request_log.hpp"

#include <cstdio>
#include <ctime>

namespace lapidary::serve {

void RequestLog::add(const Head& head, const RouteInfo& route, const std::string& key_name, int status, const std::string& rest) {
  ++metrics_.requests[{std::string(route.name), status}];
  char time[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &utc);
  say_(std::string(time) + " " + head.request_id + " " + (key_name.empty() ? "-" : key_name) + " " + std::string(route.name) + " " +
       std::to_string(status) + rest);
}

void RequestLog::add(Call& call, const Done& done) {
  const Usage& usage = done.outcome.usage;
  char rest[256];
  std::snprintf(rest, sizeof rest, " prompt %lld cached %lld generated %lld queue %.3f s first %.3f s %.1f tok/s drafts %lld of %lld%s%s",
                static_cast<long long>(usage.prompt_tokens), static_cast<long long>(usage.cached_tokens), static_cast<long long>(usage.completion_tokens),
                call.begun_at == Clock::time_point{} ? 0.0 : std::chrono::duration<double>(call.begun_at - call.arrived).count(), done.first_token_s,
                done.outcome.predicted_per_second, static_cast<long long>(usage.accepted_drafts),
                static_cast<long long>(usage.accepted_drafts + usage.rejected_drafts), call.cancelled_by.empty() ? "" : " cancelled: ",
                std::string(call.cancelled_by).c_str());
  add(call.exchange().head(), call.route(), call.key_name(), call.status, rest);
}

Refusal RequestLog::mishap(const std::string& request_id, const std::string& what) {
  say_("[" + request_id + "] " + what);
  return {.status = 500, .code = "internal_error", .message = "[server] something went wrong here, the log knows what"};
}

}  // namespace lapidary::serve
