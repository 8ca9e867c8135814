// A request for an answer, from its body to its last byte. On the thread with the sockets.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "serve/api.hpp"
#include "serve/http.hpp"
#include "serve/routes.hpp"
#include "serve/ticket.hpp"

namespace lapidary::serve {

class Call {
 public:
  enum class State : std::uint8_t { preparing, waiting, running, over };

  // `fields`: of its answer, besides the usual ones.
  Call(std::shared_ptr<Exchange> exchange, RouteInfo route, std::string key_name, Response::Fields fields)
      : exchange_(std::move(exchange)), route_(route), key_name_(std::move(key_name)), fields_(std::move(fields)) {}

  // Its request has been read: the ticket is handed in.
  void wait(Request request);
  void begin(const Begun& begun);
  void add(const Delta& delta) { say(request_.writer->add(delta)); }
  void end(const ChoiceEnd& end);
  void finish(const Outcome& outcome);
  void refuse(const Refusal& refusal);  // whatever has been said so far
  void keep_alive();
  void leave();  // nobody listens any more

  State state() const { return state_; }
  bool streams() const { return request_.streams; }
  const std::shared_ptr<Ticket>& ticket() const { return ticket_; }
  Exchange& exchange() { return *exchange_; }
  const RouteInfo& route() const { return route_; }
  const std::string& key_name() const { return key_name_; }
  int answers_left() const { return ticket_->answers() - answers_ended_; }  // once its request has been read

  int status = 0;                       // that was answered; kClientLeft where nobody was there
  Clock::time_point arrived = Clock::now(), begun_at{};
  std::string_view cancelled_by{};      // "client", "timeout", "drain"
  std::function<void()> stop_queue_timer{}, stop_request_timer{}, stop_silence_timer{};

 private:
  void say(const std::string& text);
  void answer(Response response);

  const std::shared_ptr<Exchange> exchange_;
  const RouteInfo route_;
  const std::string key_name_;
  const Response::Fields fields_;
  const std::shared_ptr<Ticket> ticket_ = std::make_shared<Ticket>();  // from the beginning: whoever prepares it looks whether it is cancelled
  Request request_;
  State state_ = State::preparing;
  int answers_ended_ = 0;
  bool said_something_ = false;  // since keep_alive()
};

// Of the log alone: there is nobody to answer.
inline constexpr int kClientLeft = 499;
inline constexpr int kRetrySeconds = 5;
inline constexpr std::string_view kQueueFull = "queue_full";

Refusal unavailable(std::string_view code, std::string message);  // 503: later, or elsewhere
Refusal draining();
Refusal queue_full(std::string_view of_what);  // 429
Response response_of(const Refusal& refusal, const RouteInfo& route, const std::string& request_id);

}  // namespace lapidary::serve
