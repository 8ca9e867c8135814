// The parts of http.cpp, which alone includes this: they have the types of Boost.
#pragma once

#include <unistd.h>

#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>
#include <optional>
#include <set>

#include "serve/http_head.hpp"
#include "serve/listen.hpp"

namespace lapidary::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Socket = asio::generic::stream_protocol::socket;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

// What is read and not parsed yet. Chunk extensions and trailers have no other limit.
constexpr std::size_t kBufferBytes = 128 << 10;
constexpr double kAcceptAgainS = 0.1;  // when there are no descriptors left

inline Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

class Answer;

// What bodies take of `bodies_bytes`. A share is a request's; it gives back what it holds when it ends.
class BodyShare {
 public:
  BodyShare(std::shared_ptr<std::size_t> all, std::size_t most) : all_(std::move(all)), most_(most) {}
  BodyShare(BodyShare&& other) noexcept : all_(other.all_), most_(other.most_), held_(std::exchange(other.held_, 0)) {}
  BodyShare& operator=(BodyShare&&) = delete;
  ~BodyShare() { hold(0); }
  bool hold(std::size_t bytes) {
    *all_ += bytes - std::exchange(held_, bytes);
    return *all_ <= most_;
  }

 private:
  const std::shared_ptr<std::size_t> all_;  // of all shares
  const std::size_t most_;
  std::size_t held_ = 0;
};

// One client. Its requests are read, answered and followed by the next one after the other:
//   idle -> head -> body -> answering -> idle ... -> lingering -> closed
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpLoop& loop, Socket socket, bool is_unix, bool turned_away);
  void start();
  void stop();   // an answer that has ended is still sent
  void close();  // whoever writes an answer is told
  bool turned_away() const { return turned_away_; }

  // Of the answer that is due.
  void respond(const Response& response);
  void begin_stream(const Response& head);
  void write(std::string_view part);
  void end_stream(bool whole);
  std::size_t unsent_bytes() const { return queued_.size() + sending_.size() - sent_; }

 private:
  enum class State : std::uint8_t { idle, head, body, answering, lingering, closed };

  void next_request();
  void begin_head();
  void read_head();
  void parse_head();
  void got_head();
  void read_body();
  void read_more();
  void got_body(error_code ec);
  void refuse(const HttpFault& fault);
  void watch();
  bool read_ahead();
  std::string head_text(const Response& response, std::optional<std::size_t> body_bytes) const;
  void send();
  void drained();
  void linger();
  void drop();
  void arm(double limit_s);
  void disarm() { deadline_.expires_at(Clock::time_point::max()); }
  void expired();

  HttpLoop& loop_;
  Socket socket_;
  asio::steady_timer deadline_;  // of the state
  beast::flat_buffer buffer_{kBufferBytes};
  std::optional<http::request_parser<http::string_body>> parser_;
  BodyShare share_;          // of the body that is being read
  State state_ = State::idle;
  const bool is_unix_, turned_away_;
  bool keep_ = true;         // for another request after this one
  bool watching_ = false;    // for bytes or an end, beside an answer
  int requests_ = 0;
  std::size_t head_bytes_ = 0;  // that are parsed
  std::size_t dropped_bytes_ = 0;

  Head head_;                // of the request, until its answer takes it
  std::string request_id_;
  bool head_only_ = false, chunked_ = false;
  std::weak_ptr<Answer> answer_;
  bool ended_ = false;       // all of the answer is known

  std::string queued_, sending_;
  std::size_t sent_ = 0;     // bytes of `sending_`
  bool writing_ = false;
};

class HttpLoop {
 public:
  HttpLoop(const HttpLimits& limits, Handler& handler) : limits(limits), handler(handler) {}
  ~HttpLoop() {
    const auto open = connections_;
    for (const auto& connection : open) connection->close();
    remove_files();
  }

  void accept_from(int descriptor) {
    acceptors_.emplace_back(io, asio::generic::stream_protocol(family_of(descriptor), 0), descriptor);
    accept(acceptors_.back());
  }
  void serve(int descriptor) {
    serve(Socket(io, asio::generic::stream_protocol(family_of(descriptor), 0), descriptor));
  }
  void stop() {
    stopping_ = true;
    remove_files();  // before it is free: who comes next makes its own
    acceptors_.clear();
    const auto open = connections_;
    for (const auto& connection : open) connection->stop();
    after(limits.dropped_s, [this] { io.stop(); });
    if (connections_.empty()) io.stop();
  }
  void ended(const std::shared_ptr<Connection>& connection) {
    if (connections_.erase(connection) > 0 && !connection->turned_away()) --served;
    if (stopping_ && connections_.empty()) io.stop();
  }
  bool stopping() const { return stopping_; }

  std::function<void()> after(double limit_s, std::function<void()> call) {
    const auto timer = std::make_shared<asio::steady_timer>(io, seconds(limit_s));
    timer->async_wait([timer, call = std::move(call)](error_code ec) {
      if (!ec && timer->expiry() <= Clock::now()) call();
    });
    return [weak = std::weak_ptr(timer)] {
      if (const auto timer = weak.lock()) timer->expires_at(Clock::time_point::max());
    };
  }

  const HttpLimits limits;
  Handler& handler;
  const std::shared_ptr<std::size_t> bodies = std::make_shared<std::size_t>(0);  // bytes; answers may outlive the loop
  asio::io_context io{1};
  std::atomic<int> served = 0;
  std::vector<std::string> unix_paths;

 private:
  void accept(Acceptor& acceptor) {
    acceptor.async_accept([this, &acceptor](error_code ec, Socket socket) {
      if (stopping_) return;
      if (ec) {
        after(kAcceptAgainS, [this, &acceptor] {
          if (!stopping_) accept(acceptor);
        });
        return;
      }
      serve(std::move(socket));
      accept(acceptor);
    });
  }

  void serve(Socket socket) {
    error_code ec;
    const int family = socket.local_endpoint(ec).protocol().family();
    const bool turned_away = served >= limits.connections;
    // Those that are turned away linger, too: twice as many are not even told.
    if (ec || connections_.size() >= 2 * static_cast<std::size_t>(limits.connections)) return;
    socket.non_blocking(true, ec);
    if (family != AF_UNIX) socket.set_option(asio::ip::tcp::no_delay(true), ec);
    const auto connection = std::make_shared<Connection>(*this, std::move(socket), family == AF_UNIX, turned_away);
    connections_.insert(connection);
    if (!turned_away) ++served;
    connection->start();
  }

  void remove_files() {
    for (const std::string& path : std::exchange(unix_paths, {})) ::unlink(path.c_str());
  }

  asio::executor_work_guard<asio::io_context::executor_type> work_{io.get_executor()};
  std::list<Acceptor> acceptors_;
  std::set<std::shared_ptr<Connection>> connections_;
  bool stopping_ = false;
};

class Answer final : public Exchange {
 public:
  Answer(std::weak_ptr<Connection> connection, Head head, BodyShare share)
      : connection_(std::move(connection)), head_(std::move(head)), share_(std::move(share)) {}
  ~Answer() override {
    if (const auto connection = last_word()) connection->close();
  }

  const Head& head() const override { return head_; }
  void answer(Response response) override {
    if (const auto connection = last_word()) connection->respond(response);
  }
  void begin_stream(Response head) override {
    if (const auto connection = connection_.lock()) connection->begin_stream(head);
  }
  void write(std::string part) override {
    if (const auto connection = connection_.lock()) connection->write(part);
  }
  void end_stream() override {
    if (const auto connection = last_word()) connection->end_stream(true);
  }
  void cut_stream() override {
    if (const auto connection = last_word()) connection->end_stream(false);
  }
  bool hold(std::size_t bytes) override { return share_.hold(bytes); }
  std::size_t unsent_bytes() const override {
    const auto connection = connection_.lock();
    return connection ? connection->unsent_bytes() : 0;
  }
  bool gone() const override { return gone_; }
  void on_gone(std::function<void()> call) override {
    if (gone_) return call();
    if (!connection_.expired()) gone_call_ = std::move(call);
  }
  void on_sent(std::function<void()> call) override {
    if (!connection_.expired()) sent_call_ = std::move(call);
  }

  // Of the connection. A call may end the answer, and with it what is called: it is held here.
  void left() {
    gone_ = true;
    const auto call = gone_call_;
    last_word();
    if (call) call();
  }
  void sent() {
    const auto call = sent_call_;
    if (call) call();
  }

 private:
  // Nothing follows. What is called may hold this exchange: it is let go.
  std::shared_ptr<Connection> last_word() {
    gone_call_ = sent_call_ = nullptr;
    return std::exchange(connection_, {}).lock();
  }

  std::weak_ptr<Connection> connection_;  // until the answer has ended
  const Head head_;
  BodyShare share_;
  bool gone_ = false;
  std::function<void()> gone_call_, sent_call_;
};

}  // namespace lapidary::serve
