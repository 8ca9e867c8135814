#include "serve/http.hpp"

#include <algorithm>
#include <cassert>
#include <sstream>

#include "checkpoint/error.hpp"
#include "serve/http_loop.hpp"

namespace lapidary::serve {
namespace {

constexpr std::size_t kReadBytes = 16 << 10;  // at a time
constexpr double kCancelAgainS = 0.01;        // what is read too late

// The message itself is wrong, and the client is still there to be told.
bool is_fault(error_code ec) {
  return ec.category() == make_error_code(http::error::bad_value).category() && ec != http::error::end_of_stream &&
         ec != http::error::partial_message;
}

std::string_view view(const beast::flat_buffer& buffer) { return {static_cast<const char*>(buffer.data().data()), buffer.size()}; }
std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

void read_fields(const http::request_header<>& header, Head& head) {
  head.method = view(header.method_string());
  const std::string_view target = view(header.target());
  head.path = target.substr(0, target.find('?'));
  head.http_1_0 = header.version() == 10;
  for (const auto& field : header) head.fields.emplace_back(in_lower_case(view(field.name_string())), view(field.value()));
  head.host = field_of(head, "host");
  head.origin = field_of(head, "origin");
  head.authorization = field_of(head, "authorization");
  head.api_key = field_of(head, "x-api-key");
  head.content_type = field_of(head, "content-type");
}

}  // namespace

Connection::Connection(HttpLoop& loop, Socket socket, bool is_unix, bool turned_away)
    : loop_(loop), socket_(std::move(socket)), deadline_(loop.io), share_(loop.bodies, loop.limits.bodies_bytes), is_unix_(is_unix),
      turned_away_(turned_away) {}

void Connection::start() {
  if (!turned_away_) return next_request();
  head_.request_id = request_id_ = random_id();
  refuse({503, "[connections] expected at most " + std::to_string(loop_.limits.connections) + ", got more"});
}

void Connection::next_request() {
  state_ = State::idle;
  const auto begin = [this, self = shared_from_this()](error_code ec = {}) {
    if (state_ == State::idle && !ec) begin_head();
  };
  if (buffer_.size() > 0) return asio::post(loop_.io, begin);
  buffer_.shrink_to_fit();
  arm(loop_.limits.idle_s);
  socket_.async_wait(Socket::wait_read, begin);
}

void Connection::begin_head() {
  state_ = State::head;
  arm(loop_.limits.head_s);
  head_ = {};
  head_.request_id = request_id_ = random_id();
  head_.from_unix_socket = is_unix_;
  head_only_ = false;
  head_bytes_ = 0;
  parser_.emplace();
  parser_->header_limit(kBufferBytes);  // it is of what is not parsed yet: a head that drips has none
  parser_->body_limit(boost::none);     // lengths are looked at once the head has been
  parse_head();
}

void Connection::read_head() {
  socket_.async_read_some(buffer_.prepare(kReadBytes), [this, self = shared_from_this()](error_code ec, std::size_t bytes) {
    if (state_ != State::head) return;
    if (ec == asio::error::operation_aborted) return refuse({408, "[head] expected all of it in time, got a part"});
    if (ec) return close();
    buffer_.commit(bytes);
    parse_head();
  });
}

void Connection::parse_head() {
  error_code ec = http::error::need_more;
  if (buffer_.size() > 0) {
    const std::size_t parsed = parser_->put(buffer_.data(), ec);
    if (ec == http::error::bad_version) return refuse(bad_version(view(buffer_)));
    buffer_.consume(parsed);
    head_bytes_ += parsed;
  }
  const bool part = ec == http::error::need_more;
  // A line that did not come at once may be parsed with the fields only.
  const std::size_t line_bytes = std::min(view(buffer_).find("\r\n"), buffer_.size());
  if (part && head_bytes_ == 0 && line_bytes > loop_.limits.line_bytes) return refuse(overlong_line(loop_.limits));
  if (head_bytes_ + (part ? buffer_.size() : 0) > loop_.limits.head_bytes) return refuse(overlong_head(loop_.limits));
  if (part) return read_head();
  if (ec) return refuse({400, "[head] expected HTTP/1.1, got: " + ec.message()});
  got_head();
}

void Connection::got_head() {
  disarm();
  // Looked at here and never again: trailers are put among the fields.
  read_fields(parser_->get().base(), head_);
  head_only_ = head_.method == "HEAD";
  const std::size_t line_bytes = head_.method.size() + parser_->get().target().size() + std::string_view("  HTTP/1.1").size();
  if (const auto fault = head_fault(head_, line_bytes, loop_.limits)) return refuse(*fault);
  keep_ = parser_->keep_alive() && !head_.http_1_0 && ++requests_ < loop_.limits.requests_per_connection;

  Response refusal;
  if (loop_.handler.refuses(head_, refusal)) {
    keep_ = keep_ && parser_->is_done();
    return respond(refusal);
  }
  if (const auto fault = body_fault(head_, loop_.limits)) return refuse(*fault);
  read_body();
}

void Connection::read_body() {
  state_ = State::body;
  if (parser_->is_done()) return got_body({});
  arm(loop_.limits.body_s);
  parser_->body_limit(loop_.limits.body_bytes);
  if (expects_continue(head_)) {
    queued_ += "HTTP/1.1 100 Continue\r\n\r\n";
    send();
  }
  parser_->eager(true);
  read_more();
}

void Connection::read_more() {
  http::async_read_some(socket_, buffer_, *parser_, [this, self = shared_from_this()](error_code ec, std::size_t) {
    if (state_ != State::body) return;
    if (!share_.hold(parser_->get().body().size())) return refuse(overfull_bodies(loop_.limits));
    if (ec || parser_->is_done()) return got_body(ec);
    read_more();
  });
}

void Connection::got_body(error_code ec) {
  disarm();
  if (ec == asio::error::operation_aborted) return refuse({408, "[body] expected all of it in time, got a part"});
  if (ec == http::error::body_limit)
    return refuse({413, "[body] bytes, expected at most " + std::to_string(loop_.limits.body_bytes) + ", got more"});
  if (is_fault(ec)) return refuse({400, "[body] expected chunks of HTTP/1.1, got: " + ec.message()});
  if (ec) return close();

  std::string body = std::move(parser_->get().body());
  parser_.reset();
  state_ = State::answering;
  ended_ = false;
  chunked_ = !head_.http_1_0;
  auto answer = std::make_shared<Answer>(weak_from_this(), std::exchange(head_, {}), std::move(share_));
  answer_ = answer;
  loop_.handler.handle(std::move(answer), std::move(body));
  watch();
}

// Errors of HTTP end the connection: nobody knows where the next request would begin.
void Connection::refuse(const HttpFault& fault) {
  disarm();
  keep_ = false;
  parser_.reset();  // with what there is of a body
  share_.hold(0);
  respond(loop_.handler.http_error(fault.status, fault.what, &head_));
}

// A client that leaves says so by an end of what it sends. What it sends ahead is no end.
void Connection::watch() {
  if (state_ != State::answering || ended_ || watching_ || buffer_.size() >= loop_.limits.ahead_bytes) return;
  watching_ = true;
  socket_.async_wait(Socket::wait_read, [this, self = shared_from_this()](error_code ec) {
    watching_ = false;
    if (state_ != State::answering || ended_ || ec) return;
    if (!read_ahead()) return close();
    watch();
  });
}

bool Connection::read_ahead() {
  error_code ec;
  buffer_.commit(socket_.read_some(buffer_.prepare(loop_.limits.ahead_bytes - buffer_.size()), ec));
  return !ec || ec == asio::error::would_block;
}

// `body_bytes`: none = it is streamed.
std::string Connection::head_text(const Response& response, std::optional<std::size_t> body_bytes) const {
  http::response<http::empty_body> head;
  head.result(static_cast<unsigned>(response.status));
  head.set(http::field::date, http_date(std::time(nullptr)));
  head.set(http::field::server, "lapidary");
  head.set("x-request-id", request_id_);
  head.set("request-id", request_id_);
  if (response.status != 204) {
    head.set(http::field::content_type, response.content_type);
    if (body_bytes) head.content_length(*body_bytes);
    else if (chunked_) head.chunked(true);
  }
  for (const auto& [name, value] : response.fields) {
    assert((name + value).find_first_of("\r\n") == std::string::npos);
    head.insert(name, value);
  }
  if (!keep_) head.set(http::field::connection, "close");
  std::ostringstream text;
  text << head.base();
  return text.str();
}

void Connection::respond(const Response& response) {
  state_ = State::answering;
  queued_ += head_text(response, response.body.size());
  if (!head_only_) queued_ += response.body;
  ended_ = true;
  send();
}

void Connection::begin_stream(const Response& head) {
  queued_ += head_text(head, {});
  send();
}

void Connection::write(std::string_view part) {
  if (part.empty() || head_only_) return;
  queued_ += chunked_ ? beast::buffers_to_string(http::make_chunk(asio::buffer(part))) : std::string(part);
  send();
}

void Connection::end_stream(bool whole) {
  if (whole && chunked_ && !head_only_) queued_ += beast::buffers_to_string(http::make_chunk_last());
  keep_ = keep_ && whole;
  ended_ = true;
  send();
}

void Connection::send() {
  if (writing_) return;
  if (sent_ == sending_.size()) {
    sending_ = std::exchange(queued_, {});
    sent_ = 0;
  }
  if (sending_.empty()) return drained();
  writing_ = true;
  if (state_ == State::answering) arm(loop_.limits.send_s);
  socket_.async_write_some(asio::buffer(sending_) + sent_, [this, self = shared_from_this()](error_code ec, std::size_t bytes) {
    writing_ = false;
    if (state_ == State::closed) return;
    if (ec) return close();
    sent_ += bytes;
    send();
  });
}

void Connection::drained() {
  if (state_ != State::answering) return;
  disarm();
  if (!ended_) {
    if (const auto answer = answer_.lock()) answer->sent();
  } else if (keep_ && !loop_.stopping()) {
    next_request();
  } else {
    linger();
  }
}

// Closing while bytes of the client are unread would take the answer away from it.
void Connection::linger() {
  state_ = State::lingering;
  error_code ec;
  socket_.shutdown(Socket::shutdown_send, ec);
  if (loop_.stopping() && socket_.available(ec) == 0) return close();
  buffer_.clear();
  arm(loop_.limits.dropped_s);
  drop();
}

void Connection::drop() {
  socket_.async_read_some(buffer_.prepare(kReadBytes), [this, self = shared_from_this()](error_code ec, std::size_t bytes) {
    if (state_ != State::lingering) return;
    dropped_bytes_ += bytes;
    if (ec || dropped_bytes_ >= loop_.limits.dropped_bytes) return close();
    drop();
  });
}

void Connection::stop() {
  keep_ = false;
  if (state_ != State::answering || !ended_) close();
}

void Connection::close() {
  if (state_ == State::closed) return;
  const auto self = shared_from_this();
  const auto answer = state_ == State::answering && !ended_ ? answer_.lock() : nullptr;
  state_ = State::closed;
  error_code ec;
  socket_.close(ec);
  deadline_.cancel();
  share_.hold(0);
  loop_.ended(self);
  if (answer) answer->left();
}

void Connection::arm(double limit_s) {
  deadline_.expires_after(seconds(limit_s));
  deadline_.async_wait([this, self = shared_from_this()](error_code ec) {
    if (!ec && deadline_.expiry() <= Clock::now()) expired();
  });
}

void Connection::expired() {
  if (state_ != State::head && state_ != State::body) return close();
  // Whoever reads hears of it and tells the client. Between two of its reads there is nothing to cancel yet.
  error_code ec;
  socket_.cancel(ec);
  arm(kCancelAgainS);
}

HttpServer::HttpServer(const HttpLimits& limits, Handler& handler) : loop_(std::make_unique<HttpLoop>(limits, handler)) {}
HttpServer::~HttpServer() = default;

int HttpServer::listen_tcp(const std::string& address, int port) {
  const int descriptor = listen_on_tcp(address, port);
  loop_->accept_from(descriptor);
  return port_of(descriptor);
}

void HttpServer::listen_unix(const std::string& path) {
  loop_->accept_from(listen_on_unix(path));
  loop_->unix_paths.push_back(path);
}

void HttpServer::adopt(int descriptor) {
  if (!is_listening(descriptor))
    fail(ErrorKind::usage, "LISTEN_FDS", "descriptor " + std::to_string(descriptor) + ", expected a listening socket, got something else");
  loop_->accept_from(descriptor);
}

void HttpServer::serve(int descriptor) { loop_->serve(descriptor); }
void HttpServer::run() { loop_->io.run(); }

void HttpServer::stop() {
  asio::post(loop_->io, [this] { loop_->stop(); });
}

void HttpServer::post(std::function<void()> call) { asio::post(loop_->io, std::move(call)); }
int HttpServer::connections() const { return loop_->served; }

std::function<void()> HttpServer::after(double seconds, std::function<void()> call) { return loop_->after(seconds, std::move(call)); }

}  // namespace lapidary::serve
