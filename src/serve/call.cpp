#include "serve/call.hpp"

#include <utility>

namespace lapidary::serve {

Response response_of(const Refusal& refusal, const RouteInfo& route, const std::string& request_id) {
  Response response{.status = refusal.status, .body = route.is_anthropic ? anthropic_error(refusal, request_id) : openai_error(refusal)};
  if (refusal.retry_after_s > 0) response.fields.emplace_back("Retry-After", std::to_string(refusal.retry_after_s));
  if (refusal.status == 401) response.fields.emplace_back("WWW-Authenticate", "Bearer");
  if (refusal.status == 405) response.fields.emplace_back("Allow", std::string(route.allowed()));
  return response;
}

Refusal unavailable(std::string_view code, std::string message) {
  return {.status = 503, .code = code, .message = std::move(message), .retry_after_s = kRetrySeconds};
}

Refusal queue_full(std::string_view of_what) {
  return {.status = 429, .code = kQueueFull, .message = "[queue] expected a request later, got more " + std::string(of_what) + " than can wait", .retry_after_s = kRetrySeconds};
}

Refusal draining() { return unavailable("draining", "[server] it is about to end, expected a request to another one"); }

void Call::wait(Request request) {
  request_ = std::move(request);
  state_ = State::waiting;
}

void Call::begin(const Begun& begun) {
  state_ = State::running;
  begun_at = Clock::now();
  if (streams()) {
    status = 200;
    Response head{.content_type = "text/event-stream", .fields = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
    head.fields.insert(head.fields.end(), fields_.begin(), fields_.end());
    exchange_->begin_stream(std::move(head));
  }
  say(request_.writer->begin(begun.usage));
}

void Call::end(const ChoiceEnd& end) {
  ++answers_ended_;
  say(request_.writer->end(end));
}

void Call::say(const std::string& text) {
  if (text.empty() || !streams() || state_ != State::running) return;
  said_something_ = true;
  exchange_->write(text);
}

void Call::keep_alive() {
  if (!std::exchange(said_something_, false)) exchange_->write(request_.writer->keep_alive());
}

void Call::finish(const Outcome& outcome) {
  const std::string text = request_.writer->finish(outcome);
  if (streams()) {
    say(text);
    exchange_->end_stream();
  } else {
    answer({.body = text});
  }
  state_ = State::over;
}

void Call::refuse(const Refusal& refusal) {
  if (state_ == State::running && streams()) {
    exchange_->write(request_.writer->fail(refusal));
    exchange_->cut_stream();
  } else {
    answer(response_of(refusal, route_, exchange_->head().request_id));
  }
  state_ = State::over;
}

void Call::leave() {
  if (status == 0) status = kClientLeft;
  state_ = State::over;
}

void Call::answer(Response response) {
  status = response.status;
  response.fields.insert(response.fields.end(), fields_.begin(), fields_.end());
  exchange_->answer(std::move(response));
}

}  // namespace lapidary::serve
