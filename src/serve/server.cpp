#include "serve/server.hpp"

#include <atomic>
#include <cmath>
#include <ctime>
#include <exception>
#include <filesystem>
#include <thread>

#include "serve/body.hpp"
#include "serve/calls.hpp"
#include "serve/http_head.hpp"
#include "serve/page.hpp"
#include "serve/routes.hpp"
#include "serve/status.hpp"
#include "serve/systemd.hpp"
#include "serve/tokens_api.hpp"

namespace lapidary::serve {
namespace {

constexpr std::string_view kVersion = LAPIDARY_VERSION;

std::int64_t now_s() { return static_cast<std::int64_t>(std::time(nullptr)); }

}  // namespace

class Server::Core final : public Handler {
 public:
  Core(ServerOptions options, std::function<std::unique_ptr<engine::Model>()> load, std::function<void(const std::string&)> say)
      : options_(std::move(options)), load_(std::move(load)), say_(std::move(say)), access_(options_.access), log_(say_, metrics_), http_(options_.http, *this) {
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
    readers_.reset();  // what they and the engine still had to post is dropped with the loop
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
  void be_ready(std::size_t cache_bytes);
  void begin_draining();
  void end_when_drained();
  void answer_now(Exchange& exchange, const RouteInfo& route);
  void answer_later(std::shared_ptr<Exchange> exchange, const RouteInfo& route, std::string body);
  std::string body_of(const RouteInfo& route, const std::string& request, const std::atomic<bool>& gone) const;
  void answer(Exchange& exchange, const RouteInfo& route, Response response);
  std::string metrics_text();

  const ServerOptions options_;
  const std::function<std::unique_ptr<engine::Model>()> load_;
  const std::function<void(const std::string&)> say_;
  const Access access_;
  Facts facts_;
  Metrics metrics_;
  RequestLog log_;
  std::unique_ptr<engine::Model> model_;
  State state_ = State::loading;
  std::int64_t ready_s_ = 0;
  int port_ = 0;
  std::exception_ptr failure_;
  int answers_due_ = 0;  // that the readers make

  HttpServer http_;
  std::unique_ptr<Calls> calls_;  // this and what follows: once the model is loaded
  std::unique_ptr<Streams> streams_;
  std::unique_ptr<Readers> readers_;
};

// On a thread of its own: the sockets answer meanwhile.
void Server::Core::load() {
  try {
    auto model = load_();
    const link::MemoryPlan& plan = model->program.plan;
    const std::size_t cache_bytes = options_.prefix_cache_bytes_of(plan);
    auto streams = std::make_unique<Streams>(*model, cache_bytes, [this](std::vector<News> news) {
      http_.post([this, news = std::move(news)] { calls_->hear(news); });
    });
    Facts facts{.names = options_.aliases, .fingerprint = fingerprint_of(*model, kVersion), .vocab = model->program.graph->shape.vocab,
                .thinks = options_.thinks, .fetcher = options_.fetcher.get(), .random_id = random_id, .now_s = now_s};
    if (facts.names.empty() || facts.names.front() == "*")
      facts.names.insert(facts.names.begin(), std::filesystem::path(model->program.target.folder).filename().string());
    http_.post([this, facts = std::move(facts), model = std::make_shared<std::unique_ptr<engine::Model>>(std::move(model)),
                streams = std::make_shared<std::unique_ptr<Streams>>(std::move(streams)), cache_bytes] {
      facts_ = facts;
      model_ = std::move(*model);
      streams_ = std::move(*streams);
      readers_ = std::make_unique<Readers>(facts_.fetcher);
      calls_ = std::make_unique<Calls>(Calls::Uses{options_, *model_, facts_, http_, *readers_, *streams_, metrics_, log_}, [this] { end_when_drained(); });
      be_ready(cache_bytes);
    });
  } catch (...) {
    failure_ = std::current_exception();
    http_.stop();
  }
}

void Server::Core::be_ready(std::size_t cache_bytes) {
  if (state_ == State::draining) return end_when_drained();
  state_ = State::ready;
  ready_s_ = now_s();
  tell_supervisor("READY=1");
  const link::MemoryPlan& plan = model_->program.plan;
  std::string drafters;
  for (const engine::Model::Drafter& drafter : model_->drafters()) drafters += (drafters.empty() ? "" : " and ") + std::string(drafter.folder_name());
  const std::string host = options_.host.find(':') == std::string::npos ? options_.host : "[" + options_.host + "]";
  const std::string where = !options_.handed_over.empty() ? "the sockets that were handed over"
                            : !options_.unix_path.empty() ? options_.unix_path
                                                          : "http://" + host + ":" + std::to_string(port_);
  constexpr double kMegabyte = 1e6;
  const auto megabytes = [](std::size_t bytes) { return std::to_string(static_cast<long>(std::ceil(static_cast<double>(bytes) / kMegabyte))) + " MB"; };
  say_("listening on " + where + ", model " + facts_.names.front() + ", " + std::to_string(plan.sessions) + " x " + std::to_string(plan.context_tokens) +
       " tokens, K/V " + megabytes(plan.kv_bytes) + ", cache " + megabytes(cache_bytes) + ", drafter " +
       (drafters.empty() ? "none" : drafters));
}

Response Server::Core::http_error(int status, std::string_view what, const Head* head) {
  const RouteInfo route = head ? route_of(head->path) : RouteInfo{Route::none, "other"};
  Refusal refusal{.status = status, .message = std::string(what)};
  if (status == 429) refusal.code = kQueueFull;
  if (status == 429 || status == 503) refusal.retry_after_s = kRetrySeconds;
  if (!head) return response_of(refusal, route, "");
  log_.add(*head, route, "", status);
  Response response = response_of(refusal, route, head->request_id);
  for (auto& field : access_.cors_fields(*head)) response.fields.push_back(std::move(field));
  return response;
}

bool Server::Core::refuses(const Head& head, Response& refusal) {
  const RouteInfo route = route_of(head.path);
  const auto refuse = [&](const Refusal& why) {
    refusal = response_of(why, route, head.request_id);
    for (auto& field : access_.cors_fields(head)) refusal.fields.push_back(std::move(field));
    log_.add(head, route, "", why.status);
    return true;
  };
  if (route.route == Route::none || (route.route == Route::page && !options_.has_page))
    return refuse({.status = 404, .code = "not_found", .message = "[path] expected one that this server has, got another"});
  if (head.method == "OPTIONS") {
    refusal = {.status = 204, .fields = {{"Allow", std::string(route.allowed())}}};
    for (auto& field : access_.cors_fields(head, route.allowed())) refusal.fields.push_back(std::move(field));
    log_.add(head, route, "", refusal.status);
    return true;
  }
  if (!route.allows(head.method))
    return refuse({.status = 405, .message = "[method] expected " + std::string(route.allowed()) + ", got another"});
  if (route.route == Route::health) return false;  // whoever balances asks for it by any name
  if (const auto why = access_.check_site(head)) return refuse(*why);
  if (!route.is_open && !access_.key_name(head)) return refuse(Access::no_key());
  if (state_ == State::loading) return refuse(unavailable("loading", "[server] the model is being loaded, expected a request later"));
  if (state_ == State::draining && route.posts) return refuse(draining());
  return false;
}

void Server::Core::answer(Exchange& exchange, const RouteInfo& route, Response response) {
  for (auto& field : access_.cors_fields(exchange.head())) response.fields.push_back(std::move(field));
  log_.add(exchange.head(), route, access_.key_name(exchange.head()).value_or(""), response.status);
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
  if (route.route == Route::props) return answer_later(std::move(exchange), route, {});  // it may hash files
  if (!route.posts) return answer_now(*exchange, route);
  if (state_ == State::draining) return refuse(draining());  // since its head came
  if (!calls_->may_wait(answers_due_)) return refuse(queue_full("requests"));
  const bool is_call = route.route == Route::chat || route.route == Route::completions || route.route == Route::responses || route.route == Route::messages;
  if (!is_call) return answer_later(std::move(exchange), route, std::move(body));
  auto fields = access_.cors_fields(exchange->head());
  auto key_name = access_.key_name(exchange->head()).value_or("");
  auto call = std::make_shared<Call>(std::move(exchange), route, std::move(key_name), std::move(fields));
  calls_->begin(std::move(call), std::move(body));
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
  const Work work = streams_->work();
  const link::MemoryPlan& plan = model_->program.plan;
  const int running = calls_->running();
  Metrics::Now now{.running = running, .waiting = static_cast<int>(calls_->size()) - running, .slots = plan.sessions, .kv_bytes = plan.kv_bytes,
                   .cache_bytes = work.cache_bytes, .evictions = work.evictions, .round_s = work.round_s, .version = std::string(kVersion),
                   .model = facts_.names.front(), .backend = std::string(model_->program.backend->name),
                   .numeric = std::string(name_of(model_->program.numeric))};
  for (std::size_t rows = 1; rows < work.rounds_by_rows.size(); ++rows) now.rounds_by_rows.emplace_back(static_cast<int>(rows), work.rounds_by_rows[rows]);
  return metrics_.text(now);
}

// What takes a while and no session: by the readers.
void Server::Core::answer_later(std::shared_ptr<Exchange> exchange, const RouteInfo& route, std::string body) {
  ++answers_due_;
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange->on_gone([gone] { *gone = true; });
  readers_->post(std::move(body), [this, exchange = std::move(exchange), route, gone](const std::string& body, GrammarCache&) mutable {
    Response response;
    Refusal refusal{.status = 0};
    try {
      response.body = body_of(route, body, *gone);
    } catch (...) {
      refusal = caught();
    }
    http_.post([this, exchange = std::move(exchange), route, response = std::move(response), refusal = std::move(refusal)]() mutable {
      const std::string& id = exchange->head().request_id;
      if (refusal.status == 500) refusal = log_.mishap(id, refusal.message);
      if (refusal.status != 0) response = response_of(refusal, route, id);
      --answers_due_;
      answer(*exchange, route, std::move(response));
      end_when_drained();
    });
  });
}

std::string Server::Core::body_of(const RouteInfo& route, const std::string& request, const std::atomic<bool>& gone) const {
  const engine::Model& model = *model_;
  if (route.route == Route::props) return props_body(model, facts_, options_, kVersion);
  const text::Value value = parse_body(request);
  switch (route.route) {
    case Route::count_tokens:
      return R"({"input_tokens":)" + std::to_string(prompt_of(model, read_count_tokens(value, facts_), gone).ids.size()) + "}";
    case Route::tokenize: {
      const TokenizeRequest tokenize = read_tokenize(value, facts_);
      const auto* plain = std::get_if<PlainText>(&tokenize.content);
      return tokens_body(plain ? ids_of(*plain, model.tokenizer) : prompt_of(model, std::get<ChatPrompt>(tokenize.content), gone).ids, tokenize.with_pieces,
                         model.tokenizer);
    }
    case Route::detokenize: return content_body(read_detokenize(value, facts_), model.tokenizer);
    default: return prompt_body(prompt_of(model, read_apply_template(value, facts_), gone).ids, model.tokenizer);
  }
}

void Server::Core::begin_draining() {
  if (state_ == State::draining) return;
  state_ = State::draining;
  tell_supervisor("STOPPING=1");
  say_("draining: " + std::to_string(calls_ ? calls_->size() : 0) + " requests at work");
  if (calls_) calls_->drain();
  end_when_drained();
}

// While the model loads there is nobody to wait for but the loader.
void Server::Core::end_when_drained() {
  if (state_ == State::draining && calls_ && calls_->size() == 0 && answers_due_ == 0) http_.stop();
}

Server::Server(ServerOptions options, std::function<std::unique_ptr<engine::Model>()> load, std::function<void(const std::string&)> say)
    : core_(std::make_unique<Core>(std::move(options), std::move(load), std::move(say))) {}
Server::~Server() = default;
int Server::port() const { return core_->port(); }
void Server::run() { core_->run(); }
void Server::drain() { core_->drain(); }

}  // namespace lapidary::serve
