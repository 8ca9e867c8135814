#include "serve/calls.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "serve/body.hpp"

namespace lapidary::serve {
namespace {

Request read_request(Route route, const text::Value& body, const Facts& facts) {
  switch (route) {
    case Route::chat: return read_chat(body, facts);
    case Route::completions: return read_completion(body, facts);
    case Route::responses: return read_response(body, facts);
    default: return read_message(body, facts);
  }
}

}  // namespace

int Calls::running() const {
  return static_cast<int>(std::ranges::count(all_, Call::State::running, [](const auto& call) { return call->state(); }));
}

// Those that have a session to go to soon do not wait.
bool Calls::may_wait(int others) const {
  int waiting = others, sessions = uses_.model.program.plan.sessions;
  for (const auto& call : all_)
    if (call->state() == Call::State::running) sessions -= call->answers_left();
    else ++waiting;
  return waiting < uses_.options.queue + std::max(0, sessions);
}

void Calls::begin(std::shared_ptr<Call> call, std::string body) {
  all_.insert(call);
  call->exchange().on_gone([this, weak = std::weak_ptr(call)] {
    if (const auto call = weak.lock()) cancel(call, "client", std::nullopt);
  });
  uses_.readers.post(std::move(body), [this, call = std::move(call)](const std::string& body, GrammarCache& grammars) mutable {
    Ticket& ticket = *call->ticket();
    auto request = std::make_shared<Request>();
    Refusal refusal{.status = 0};
    try {
      *request = read_request(call->route().route, parse_body(body), uses_.facts);
      prepare(uses_.model, std::move(request->job), grammars, ticket);
      ticket.space = (uses_.options.shares_prefixes ? "" : call->key_name()) + '\0' + ticket.job.cache_salt;
    } catch (...) {
      refusal = caught();
    }
    uses_.http.post([this, call = std::move(call), body_bytes = body.size(), request = std::move(request), refusal = std::move(refusal)] {
      if (call->state() == Call::State::over) return close(call);
      const bool has_room = call->exchange().hold(body_bytes + call->ticket()->media_bytes());  // the writer may repeat much of the body
      if (refusal.status == 0 && has_room) return submit(call, std::move(*request));
      if (refusal.status == 500) call->refuse(uses_.log.mishap(call->exchange().head().request_id, refusal.message));
      else call->refuse(refusal.status != 0 ? refusal : queue_full("pictures and sounds"));
      close(call);
    });
  });
}

void Calls::submit(const std::shared_ptr<Call>& call, Request request) {
  call->wait(std::move(request));
  by_ticket_[call->ticket().get()] = call;
  const std::weak_ptr weak(call);
  call->stop_queue_timer = uses_.http.after(uses_.options.queue_timeout_s, [this, weak] {
    if (const auto call = weak.lock())
      cancel(call, "timeout", unavailable("queue_timeout", "[queue] expected a session within --queue-timeout, got none"));
  });
  if (uses_.options.request_timeout_s > 0)
    call->stop_request_timer = uses_.http.after(uses_.options.request_timeout_s, [this, weak] {
      if (const auto call = weak.lock())
        cancel(call, "timeout", Refusal{.status = 408, .code = "timeout", .message = "[request] expected an end within --request-timeout, got none"});
    });
  call->exchange().on_sent([this, weak] {
    if (const auto call = weak.lock()) look_at_reader(*call);
  });
  uses_.streams.submit(call->ticket());
}

void Calls::hear(const std::vector<News>& all) {
  for (const News& news : all) {
    const auto found = by_ticket_.find(news.ticket.get());
    if (found == by_ticket_.end()) continue;
    const std::shared_ptr<Call> call = found->second;
    hear(call, news);
    look_at_reader(*call);
  }
}

void Calls::hear(const std::shared_ptr<Call>& call, const News& news) {
  if (const auto* done = std::get_if<Done>(&news.what)) {
    uses_.metrics.count(done->outcome.usage);
    if (call->state() != Call::State::over) call->finish(done->outcome);
    if (done->first_token_s > 0) uses_.metrics.first_token_s.observe(done->first_token_s);
    if (done->outcome.predicted_per_second > 0) uses_.metrics.token_s.observe(1 / done->outcome.predicted_per_second);
    return close(call, *done);
  }
  if (const auto* why = std::get_if<Refusal>(&news.what)) {
    const Refusal told = uses_.log.mishap(call->exchange().head().request_id, why->message);
    if (call->state() != Call::State::over) call->refuse(told);
    return close(call);
  }
  if (call->state() == Call::State::over) return;  // nobody listens
  if (const auto* begun = std::get_if<Begun>(&news.what)) {
    call->stop_queue_timer();
    uses_.metrics.queue_s.observe(seconds_since(call->arrived));
    call->begin(*begun);
    if (call->streams()) keep_alive(call);
  } else if (const auto* delta = std::get_if<Delta>(&news.what)) {
    call->add(*delta);
  } else {
    call->end(std::get<ChoiceEnd>(news.what));
  }
}

// A client that does not read gets no more rounds until it does.
void Calls::look_at_reader(Call& call) {
  const bool parked = call.state() != Call::State::over && call.exchange().unsent_bytes() > uses_.options.http.unsent_bytes;
  if (call.ticket()->parked.exchange(parked) && !parked) uses_.streams.wake();
}

void Calls::keep_alive(const std::shared_ptr<Call>& call) {
  call->stop_silence_timer = uses_.http.after(uses_.options.silence_s, [this, weak = std::weak_ptr(call)] {
    const auto call = weak.lock();
    if (!call || call->state() != Call::State::running) return;
    call->keep_alive();
    keep_alive(call);
  });
}

// The answer ends here; what was generated is counted when the engine has stopped.
void Calls::cancel(const std::shared_ptr<Call>& call, std::string_view reason, const std::optional<Refusal>& refusal) {
  if (call->state() == Call::State::over) return;
  call->cancelled_by = reason;
  ++uses_.metrics.cancelled[reason];
  if (refusal) call->refuse(*refusal);
  else call->leave();
  call->ticket()->cancelled = true;
  uses_.streams.wake();
}

void Calls::close(const std::shared_ptr<Call>& call, const Done& done) {
  for (const auto& stop : {call->stop_queue_timer, call->stop_request_timer, call->stop_silence_timer})
    if (stop) stop();
  uses_.log.add(*call, done);
  by_ticket_.erase(call->ticket().get());
  all_.erase(call);
  on_end_();
}

void Calls::drain() {
  const auto all = all_;
  for (const auto& call : all)
    if (call->state() != Call::State::running) cancel(call, "drain", draining());
  uses_.http.after(uses_.options.drain_timeout_s, [this] {
    const auto rest = all_;
    for (const auto& call : rest) cancel(call, "drain", unavailable("draining", "[server] it ended before the answer did"));
  });
}

}  // namespace lapidary::serve
