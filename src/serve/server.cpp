#include "serve/server.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <exception>
#include <filesystem>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>

#include "checkpoint/error.hpp"
#include "serve/body.hpp"
#include "serve/call.hpp"
#include "serve/metrics.hpp"
#include "serve/page.hpp"
#include "serve/prepare.hpp"
#include "serve/routes.hpp"
#include "serve/status.hpp"
#include "serve/streams.hpp"
#include "serve/systemd.hpp"
#include "serve/tokens_api.hpp"

namespace lapidary::serve {
namespace {

constexpr double kSilenceSeconds = 10;              // then a stream says that it is there
constexpr std::size_t kMaxWaitingBytes = 256 << 20; // of bodies
constexpr int kRetrySeconds = 5;
constexpr std::string_view kVersion = LAPIDARY_VERSION;

// 128 random bits.
std::string random_id() {
  thread_local std::random_device device;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (int word = 0; word < 4; ++word) {
    std::uint32_t bits = device();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4) id += kDigits[bits & 15];
  }
  return id;
}

std::int64_t now_s() { return static_cast<std::int64_t>(std::time(nullptr)); }

Refusal unavailable(std::string_view code, std::string message) {
  return {.status = 503, .code = code, .message = std::move(message), .retry_after_s = kRetrySeconds};
}

Refusal internal_error() { return {.status = 500, .code = "internal_error", .message = "[server] something went wrong here, the log knows what"}; }

Request read_request(Route route, const text::Value& body, const Facts& facts) {
  switch (route) {
    case Route::chat: return read_chat(body, facts);
    case Route::completions: return read_completion(body, facts);
    case Route::responses: return read_response(body, facts);
    default: return read_message(body, facts);
  }
}

}  // namespace

class Server::Core final : public Handler {
 public:
  Core(ServerOptions options, std::function<std::unique_ptr<engine::Model>()> load, std::function<void(const std::string&)> say)
      : options_(std::move(options)), load_(std::move(load)), say_(std::move(say)), access_(options_.access), http_(options_.http, *this) {
    for (const int socket : options_.handed_over) http_.adopt(socket);
    if (!options_.handed_over.empty()) return;
    if (!options_.unix_path.empty()) http_.listen_unix(options_.unix_path);
    else port_ = http_.listen_tcp(options_.host, options_.port);
  }

  int port() const { return port_; }

  void run() {
    std::thread loader([this] { load(); });
    http_.run();
    loader.join();
    calls_.clear();
    worker_.reset();
    streams_.reset();
    if (failure_) std::rethrow_exception(failure_);
  }

  void drain() {
    http_.post([this] { begin_draining(); });
  }

  // Handler
  bool refuses(const Head& head, Response& refusal) override;
  void handle(std::shared_ptr<Exchange> exchange, std::string body) override;
  Response http_error(int status, std::string_view what, const Head* head) override;

 private:
  enum class State : std::uint8_t { loading, ready, draining };

  void load();
  void begin_draining();
  void end_when_drained();
  bool may_wait(std::size_t body_bytes) const;
  void answer_now(Exchange& exchange, const RouteInfo& route);
  void answer_tokens(std::shared_ptr<Exchange> exchange, const RouteInfo& route, std::string body);
  void begin_call(std::shared_ptr<Exchange> exchange, const RouteInfo& route, std::string key_name, std::string body);
  void submit(const std::shared_ptr<Call>& call, std::shared_ptr<Ticket> ticket, Request request);
  void hear(std::vector<News> news);
  void hear(const std::shared_ptr<Call>& call, const News& news);
  void look_at_reader(Call& call);
  void keep_alive(const std::shared_ptr<Call>& call);
  void cancel(const std::shared_ptr<Call>& call, std::string_view reason, const std::optional<Refusal>& refusal);
  void close(const std::shared_ptr<Call>& call);
  void log(const Head& head, const RouteInfo& route, const std::string& key_name, int status, const std::string& rest = "");
  void log(Call& call, const Done& done);
  void answer(Exchange& exchange, const RouteInfo& route, Response response);
  std::string metrics_text();

  const ServerOptions options_;
  const std::function<std::unique_ptr<engine::Model>()> load_;
  const std::function<void(const std::string&)> say_;
  const Access access_;
  Facts facts_;
  Metrics metrics_;
  std::unique_ptr<engine::Model> model_;
  State state_ = State::loading;
  std::int64_t ready_s_ = 0;
  int port_ = 0;
  std::exception_ptr failure_;

  std::set<std::shared_ptr<Call>> calls_;                       // all that are not over
  std::unordered_map<const Ticket*, std::shared_ptr<Call>> by_ticket_;
  int tokens_requests_ = 0;                                     // that the worker has
  GrammarCache grammars_;                                       // the worker's
  HttpServer http_;
  std::unique_ptr<Streams> streams_;
  std::unique_ptr<Worker> worker_;
};

// On a thread of its own: the sockets answer meanwhile.
void Server::Core::load() {
  try {
    auto model = load_();
    const link::MemoryPlan& plan = model->program.plan;
    const std::size_t cache_bytes = options_.prefix_cache_bytes.value_or(2 * plan.session_bytes);
    auto streams = std::make_unique<Streams>(*model, cache_bytes, [this](std::vector<News> news) {
      http_.post([this, news = std::move(news)]() mutable { hear(std::move(news)); });
    });
    Facts facts{.names = options_.aliases, .fingerprint = fingerprint_of(*model, kVersion), .vocab = model->program.graph->shape.vocab,
                .thinks = options_.thinks, .random_id = random_id, .now_s = now_s};
    if (facts.names.empty() || facts.names.front() == "*")
      facts.names.insert(facts.names.begin(), std::filesystem::path(model->program.target.folder).filename().string());
    http_.post([this, facts = std::move(facts), model = std::make_shared<std::unique_ptr<engine::Model>>(std::move(model)),
                streams = std::make_shared<std::unique_ptr<Streams>>(std::move(streams)), cache_bytes] {
      facts_ = facts;
      model_ = std::move(*model);
      streams_ = std::move(*streams);
      worker_ = std::make_unique<Worker>();
      ready_s_ = now_s();
      tell_supervisor("READY=1");
      if (state_ == State::loading) state_ = State::ready;
      const link::MemoryPlan& plan = model_->program.plan;
      const std::string assistant = model_->assistant();
      const std::string where = !options_.handed_over.empty() ? "the sockets that were handed over"
                                : !options_.unix_path.empty() ? options_.unix_path
                                                              : "http://" + options_.host + ":" + std::to_string(port_);
      constexpr double kMegabyte = 1e6;
      const auto megabytes = [](std::size_t bytes) { return std::to_string(static_cast<long>(std::ceil(static_cast<double>(bytes) / kMegabyte))) + " MB"; };
      say_("listening on " + where + ", model " + facts_.names.front() + ", " + std::to_string(plan.sessions) + " x " +
           std::to_string(plan.context_tokens) + " tokens, K/V " + megabytes(plan.kv_bytes) + ", cache " + megabytes(cache_bytes) + ", drafter " +
           (assistant.empty() ? "none" : std::filesystem::path(assistant).filename().string()));
      end_when_drained();
    });
  } catch (...) {
    failure_ = std::current_exception();
    http_.stop();
  }
}

Response Server::Core::http_error(int status, std::string_view what, const Head* head) {
  const RouteInfo route = head ? route_of(head->path) : RouteInfo{Route::none, "other"};
  Refusal refusal{.status = status, .message = std::string(what)};
  if (status == 503) refusal.retry_after_s = kRetrySeconds;
  if (head) log(*head, route, "", status);
  return response_of(refusal, route, head ? head->request_id : "");
}

bool Server::Core::refuses(const Head& head, Response& refusal) {
  const RouteInfo route = route_of(head.path);
  const auto refuse = [&](const Refusal& why) {
    refusal = response_of(why, route, head.request_id);
    log(head, route, "", why.status);
    return true;
  };
  if (route.route == Route::none || (route.route == Route::page && !options_.has_page))
    return refuse({.status = 404, .code = "not_found", .message = "[path] expected one that this server has, got another"});
  if (head.method == "OPTIONS") {
    refusal = {.status = 204, .fields = {{"Allow", std::string(route.allowed())}}};
    if (access_.allows_origin(head.origin)) {
      refusal.fields.emplace_back("Access-Control-Allow-Origin", head.origin);
      refusal.fields.emplace_back("Access-Control-Allow-Methods", std::string(route.allowed()));
      refusal.fields.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key");
    }
    return true;
  }
  if (!route.allows(head.method))
    return refuse({.status = 405, .message = "[method] expected " + std::string(route.allowed()) + ", got another"});
  if (route.route == Route::health) return false;  // whoever balances asks for it by any name
  if (const auto why = access_.check_site(head)) return refuse(*why);
  if (!route.is_open && !access_.key_name(head)) return refuse(Access::no_key());
  if (state_ == State::loading) return refuse(unavailable("loading", "[server] the model is being loaded, expected a request later"));
  if (state_ == State::draining && route.posts) return refuse(unavailable("draining", "[server] it is about to end, expected a request to another one"));
  return false;
}

void Server::Core::answer(Exchange& exchange, const RouteInfo& route, Response response) {
  if (access_.allows_origin(exchange.head().origin)) response.fields.emplace_back("Access-Control-Allow-Origin", exchange.head().origin);
  log(exchange.head(), route, access_.key_name(exchange.head()).value_or(""), response.status);
  exchange.answer(std::move(response));
}

void Server::Core::handle(std::shared_ptr<Exchange> exchange, std::string body) {
  const RouteInfo route = route_of(exchange->head().path);
  const auto refuse = [&](const Refusal& why) { answer(*exchange, route, response_of(why, route, exchange->head().request_id)); };
  switch (route.route) {
    case Route::embeddings:
      return refuse({.status = 404, .code = "unsupported_endpoint", .message = "[path] a Gemma 4 chat checkpoint is no embedding model"});
    case Route::stored_response: return refuse({.status = 404, .code = "not_found", .message = "[path] no response is stored"});
    default: break;
  }
  if (!route.posts) return answer_now(*exchange, route);
  if (!may_wait(body.size()))
    return refuse({.status = 429, .code = "queue_full", .message = "[queue] expected a request later, got more than can wait", .retry_after_s = kRetrySeconds});
  const bool is_answer = route.route == Route::chat || route.route == Route::completions || route.route == Route::responses || route.route == Route::messages;
  if (!is_answer) return answer_tokens(std::move(exchange), route, std::move(body));
  std::string key_name = access_.key_name(exchange->head()).value_or("");
  begin_call(std::move(exchange), route, std::move(key_name), std::move(body));
}

void Server::Core::answer_now(Exchange& exchange, const RouteInfo& route) {
  Response response;
  try {
    switch (route.route) {
      case Route::health: {
        constexpr const char* kNames[] = {"loading", "ok", "draining"};
        response.status = state_ == State::ready ? 200 : 503;
        response.body = std::string(R"({"status":")") + kNames[static_cast<int>(state_)] + "\"}";
        if (response.status == 503) response.fields.emplace_back("Retry-After", std::to_string(kRetrySeconds));
        break;
      }
      case Route::models: response.body = models_body(facts_, ready_s_); break;
      case Route::model: response.body = model_body(facts_, model_in(exchange.head().path), ready_s_); break;
      case Route::props: response.body = props_body(*model_, facts_, options_, kVersion); break;
      case Route::slots: response.body = slots_body(streams_->slots(), model_->program.plan.context_tokens); break;
      case Route::metrics:
        response.body = metrics_text();
        response.content_type = "text/plain; version=0.0.4; charset=utf-8";
        break;
      default:
        response = {.content_type = "text/html; charset=utf-8", .body = std::string(page_html()), .fields = page_fields()};
        break;
    }
  } catch (const Refusal& refusal) {
    response = response_of(refusal, route, exchange.head().request_id);
  }
  answer(exchange, route, std::move(response));
}

std::string Server::Core::metrics_text() {
  const Work work = streams_->take_work();
  for (const double seconds : work.round_seconds) metrics_.round_s.observe(seconds);
  const link::MemoryPlan& plan = model_->program.plan;
  Metrics::Now now{.slots = plan.sessions, .kv_bytes = plan.kv_bytes, .cache_bytes = work.cache_bytes, .evictions = work.evictions,
                   .version = std::string(kVersion), .model = facts_.names.front(), .backend = std::string(model_->program.backend->name),
                   .numeric = std::string(name_of(model_->program.numeric))};
  for (const auto& call : calls_) ++(call->state() == Call::State::running ? now.running : now.waiting);
  for (std::size_t rows = 1; rows < work.rounds_by_rows.size(); ++rows) now.rounds_by_rows.emplace_back(static_cast<int>(rows), work.rounds_by_rows[rows]);
  return metrics_.text(now);
}

// Those that have a session to go to soon do not wait.
bool Server::Core::may_wait(std::size_t body_bytes) const {
  int waiting = tokens_requests_, running = 0;
  std::size_t bytes = body_bytes;
  for (const auto& call : calls_) {
    if (call->state() == Call::State::running) {
      ++running;
    } else {
      ++waiting;
      bytes += call->body_bytes();
    }
  }
  return waiting < options_.queue + std::max(0, model_->program.plan.sessions - running) && bytes <= kMaxWaitingBytes;
}

void Server::Core::answer_tokens(std::shared_ptr<Exchange> exchange, const RouteInfo& route, std::string body) {
  ++tokens_requests_;
  worker_->post([this, exchange = std::move(exchange), route, body = std::move(body)]() mutable {
    Response response;
    try {
      const text::Value value = parse_body(body);
      const engine::Model& model = *model_;
      switch (route.route) {
        case Route::count_tokens:
          response.body = R"({"input_tokens":)" + std::to_string(prompt_of(model, read_count_tokens(value, facts_)).ids.size()) + "}";
          break;
        case Route::tokenize: {
          const TokenizeRequest request = read_tokenize(value, facts_);
          const auto* plain = std::get_if<PlainText>(&request.content);
          response.body = tokens_body(plain ? ids_of(*plain, model.tokenizer) : prompt_of(model, std::get<ChatPrompt>(request.content)).ids,
                                      request.with_pieces, model.tokenizer);
          break;
        }
        case Route::detokenize: response.body = content_body(read_detokenize(value, facts_), model.tokenizer); break;
        default: response.body = prompt_body(prompt_of(model, read_apply_template(value, facts_)).ids, model.tokenizer); break;
      }
    } catch (const Refusal& refusal) {
      response = response_of(refusal, route, exchange->head().request_id);
    } catch (const std::exception&) {
      response = response_of(internal_error(), route, exchange->head().request_id);
    }
    http_.post([this, exchange = std::move(exchange), route, response = std::move(response)]() mutable {  // it ends on that thread
      --tokens_requests_;
      answer(*exchange, route, std::move(response));
      end_when_drained();
    });
  });
}

void Server::Core::begin_call(std::shared_ptr<Exchange> exchange, const RouteInfo& route, std::string key_name, std::string body) {
  auto call = std::make_shared<Call>(exchange, route, std::move(key_name), body.size());
  calls_.insert(call);
  exchange->on_gone([this, weak = std::weak_ptr(call)] {
    if (const auto call = weak.lock()) cancel(call, "client", std::nullopt);
  });
  worker_->post([this, call, route, body = std::move(body)]() mutable {
    auto ticket = std::make_shared<Ticket>();
    auto request = std::make_shared<Request>();
    Refusal refusal{.status = 0};
    try {
      *request = read_request(route.route, parse_body(body), facts_);
      ticket->prompts = prompts_of(*model_, request->job);
      ticket->job = std::move(request->job);
      ticket->space = (options_.shares_prefixes ? "" : call->key_name()) + '\0' + ticket->job.cache_salt;
      ticket->job.options.grammars = grammars_.get(*model_, ticket->job.options);
      ticket->job.options.prediction = model_->tokenizer.encode(ticket->job.prediction, text::Specials::as_text);
    } catch (const Refusal& why) {
      refusal = why;
    } catch (const Error& error) {
      refusal = {.status = 400, .code = "invalid_value", .message = error.message()};
    } catch (const std::exception& error) {
      say_("[" + call->exchange().head().request_id + "] " + error.what());
      refusal = internal_error();
    }
    http_.post([this, call = std::move(call), ticket = std::move(ticket), request = std::move(request), refusal] {
      if (call->state() == Call::State::over) return close(call);
      if (refusal.status == 0) return submit(call, ticket, std::move(*request));
      call->refuse(refusal);
      close(call);
    });
  });
}

void Server::Core::submit(const std::shared_ptr<Call>& call, std::shared_ptr<Ticket> ticket, Request request) {
  if (state_ == State::draining) {
    call->refuse(unavailable("draining", "[server] it is about to end, expected a request to another one"));
    return close(call);
  }
  call->wait(ticket, std::move(request));
  by_ticket_[ticket.get()] = call;
  const std::weak_ptr weak(call);
  call->stop_queue_timer = http_.after(options_.queue_timeout_s, [this, weak] {
    if (const auto call = weak.lock()) cancel(call, "timeout", unavailable("queue_timeout", "[queue] expected a session within --queue-timeout, got none"));
  });
  if (options_.request_timeout_s > 0)
    call->stop_request_timer = http_.after(options_.request_timeout_s, [this, weak] {
      if (const auto call = weak.lock())
        cancel(call, "timeout", Refusal{.status = 408, .code = "timeout", .message = "[request] expected an end within --request-timeout, got none"});
    });
  call->exchange().on_sent([this, weak] {
    if (const auto call = weak.lock()) look_at_reader(*call);
  });
  streams_->submit(std::move(ticket));
}

void Server::Core::hear(std::vector<News> all) {
  for (const News& news : all) {
    const auto found = by_ticket_.find(news.ticket.get());
    if (found == by_ticket_.end()) continue;
    const std::shared_ptr<Call> call = found->second;
    hear(call, news);
    look_at_reader(*call);
  }
  end_when_drained();
}

void Server::Core::hear(const std::shared_ptr<Call>& call, const News& news) {
  if (const auto* done = std::get_if<Done>(&news.what)) {
    metrics_.count(done->outcome.usage);
    if (call->state() != Call::State::over) call->finish(done->outcome);
    if (done->first_token_s > 0) metrics_.first_token_s.observe(done->first_token_s);
    if (done->outcome.predicted_per_second > 0) metrics_.token_s.observe(1 / done->outcome.predicted_per_second);
    log(*call, *done);
    return close(call);
  }
  if (const auto* why = std::get_if<Refusal>(&news.what)) {
    say_("[" + call->exchange().head().request_id + "] " + why->message);
    if (call->state() != Call::State::over) call->refuse(internal_error());
    log(*call, {});
    return close(call);
  }
  if (call->state() == Call::State::over) return;  // nobody listens
  if (const auto* begun = std::get_if<Begun>(&news.what)) {
    call->stop_queue_timer();
    metrics_.queue_s.observe(seconds_since(call->arrived));
    call->begin(*begun);
    if (call->streams()) keep_alive(call);
  } else if (const auto* delta = std::get_if<Delta>(&news.what)) {
    call->add(*delta);
  } else {
    call->end(std::get<ChoiceEnd>(news.what));
  }
}

// A client that does not read gets no more rounds until it does.
void Server::Core::look_at_reader(Call& call) {
  if (!call.ticket()) return;
  const bool parked = call.state() != Call::State::over && call.exchange().unsent_bytes() > options_.http.unsent_bytes;
  if (call.ticket()->parked.exchange(parked) && !parked) streams_->wake();
}

void Server::Core::keep_alive(const std::shared_ptr<Call>& call) {
  call->stop_silence_timer = http_.after(kSilenceSeconds, [this, weak = std::weak_ptr(call)] {
    const auto call = weak.lock();
    if (!call || call->state() != Call::State::running) return;
    call->keep_alive();
    keep_alive(call);
  });
}

// The answer ends here; what was generated is counted when the engine has stopped.
void Server::Core::cancel(const std::shared_ptr<Call>& call, std::string_view reason, const std::optional<Refusal>& refusal) {
  if (call->state() == Call::State::over) return;
  call->cancelled_by = reason;
  ++metrics_.cancelled[reason];
  if (refusal) call->refuse(*refusal);
  else call->leave();
  if (!call->ticket()) return;
  call->ticket()->cancelled = true;
  streams_->wake();
}

void Server::Core::close(const std::shared_ptr<Call>& call) {
  for (const auto& stop : {call->stop_queue_timer, call->stop_request_timer, call->stop_silence_timer})
    if (stop) stop();
  if (!call->ticket()) log(*call, {});
  else by_ticket_.erase(call->ticket().get());
  calls_.erase(call);
  end_when_drained();
}

void Server::Core::begin_draining() {
  if (state_ == State::draining) return;
  state_ = State::draining;
  tell_supervisor("STOPPING=1");
  say_("draining: " + std::to_string(calls_.size()) + " requests at work");
  const auto all = calls_;
  for (const auto& call : all)
    if (call->state() == Call::State::waiting || call->state() == Call::State::preparing)
      cancel(call, "drain", unavailable("draining", "[server] it is about to end, expected a request to another one"));
  http_.after(options_.drain_timeout_s, [this] {
    const auto rest = calls_;
    for (const auto& call : rest) cancel(call, "drain", unavailable("draining", "[server] it ended before the answer did"));
  });
  end_when_drained();
}

// While the model loads there is nobody to wait for but the loader.
void Server::Core::end_when_drained() {
  if (state_ == State::draining && calls_.empty() && tokens_requests_ == 0 && model_) http_.stop();
}

// One line for each request: nothing that a client wrote.
void Server::Core::log(const Head& head, const RouteInfo& route, const std::string& key_name, int status, const std::string& rest) {
  ++metrics_.requests[{std::string(route.name), status}];
  char time[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &utc);
  say_(std::string(time) + " " + head.request_id + " " + (key_name.empty() ? "-" : key_name) + " " + std::string(route.name) + " " +
       std::to_string(status) + rest);
}

void Server::Core::log(Call& call, const Done& done) {
  const Usage& usage = done.outcome.usage;
  char rest[256];
  std::snprintf(rest, sizeof rest, " prompt %lld cached %lld generated %lld queue %.3f s first %.3f s %.1f tok/s drafts %lld of %lld%s%s",
                static_cast<long long>(usage.prompt_tokens), static_cast<long long>(usage.cached_tokens), static_cast<long long>(usage.completion_tokens),
                call.begun_at == Clock::time_point{} ? 0.0 : std::chrono::duration<double>(call.begun_at - call.arrived).count(), done.first_token_s,
                done.outcome.predicted_per_second, static_cast<long long>(usage.accepted_drafts),
                static_cast<long long>(usage.accepted_drafts + usage.rejected_drafts), call.cancelled_by.empty() ? "" : " cancelled: ",
                std::string(call.cancelled_by).c_str());
  log(call.exchange().head(), call.route(), call.key_name(), call.status, rest);
}

Server::Server(ServerOptions options, std::function<std::unique_ptr<engine::Model>()> load, std::function<void(const std::string&)> say)
    : core_(std::make_unique<Core>(std::move(options), std::move(load), std::move(say))) {}
Server::~Server() = default;
int Server::port() const { return core_->port(); }
void Server::run() { core_->run(); }
void Server::drain() { core_->drain(); }

}  // namespace lapidary::serve
