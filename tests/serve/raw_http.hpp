// A server with a small handler, on its own thread, and clients that are nothing but sockets.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "serve/http.hpp"
#include "support/slow_build.hpp"

namespace lapidary::serve {

constexpr int kPatienceMs = test::kSlowBuild ? 400'000 : 20'000;  // after which a test has failed

// Rung on the server's thread, heard on that of the test.
class Bells {
 public:
  void ring(const std::string& name) {
    const std::lock_guard lock(mutex_);
    ++rung_[name];
    changed_.notify_all();
  }
  bool heard(const std::string& name, int times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs), [&] { return rung_[name] >= times; });
  }
  int count(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return rung_[name];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> rung_;
};

// /echo gives the body back, /fields the fields, /stream, /cut and /flood are streams, /hold is never answered, /late when it is
// told to. /secret is refused by its head.
class TestHandler : public Handler {
 public:
  static constexpr std::size_t kFloodBytes = 32 << 20, kPartBytes = 64 << 10;

  bool refuses(const Head& head, Response& refusal) override {
    if (head.path != "/secret") return false;
    refusal = {.status = 401, .body = "no", .fields = {{"WWW-Authenticate", "Bearer"}}};
    return true;
  }

  void handle(std::shared_ptr<Exchange> exchange, std::string body) override {
    bells.ring("handled");
    const std::string path = exchange->head().path;
    if (path == "/echo") return exchange->answer({.content_type = "text/plain", .body = exchange->head().method + " " + body});
    if (path == "/empty") return exchange->answer({.status = 204});
    if (path == "/unix") return exchange->answer({.body = exchange->head().from_unix_socket ? "unix" : "tcp"});
    if (path == "/fields") {
      std::string text;
      for (const auto& [name, value] : exchange->head().fields) text += name + "=" + value + "\n";
      return exchange->answer({.body = text});
    }
    if (path == "/forget") return;
    if (path == "/hold" || path == "/late") {
      exchange->on_gone([this, exchange] { bells.ring(exchange->gone() ? "gone" : "gone, but not so"); });
      held.push_back(exchange);
      return bells.ring("held");
    }
    exchange->begin_stream({.content_type = "text/event-stream"});
    if (path == "/flood") {
      exchange->on_gone([this] { bells.ring("gone"); });
      exchange->on_sent([this, exchange] { flood(exchange); });
      return flood(exchange);
    }
    exchange->write("one,");
    exchange->write("");
    exchange->write("two");
    path == "/cut" ? exchange->cut_stream() : exchange->end_stream();
  }

  Response http_error(int status, std::string_view what, const Head* head) override {
    bells.ring(head->request_id.size() < 24 ? "no request id" : "refused");
    return {.status = status, .content_type = "text/plain", .body = std::string(what)};
  }

  Bells bells;
  std::vector<std::shared_ptr<Exchange>> held;
  std::size_t most_unsent = 0, flooded = 0;

 private:
  void flood(const std::shared_ptr<Exchange>& exchange) {
    while (flooded < kFloodBytes && exchange->unsent_bytes() < HttpLimits().unsent_bytes) {
      exchange->write(std::string(kPartBytes, 'x'));
      flooded += kPartBytes;
      most_unsent = std::max(most_unsent, exchange->unsent_bytes());
    }
    if (flooded == kFloodBytes) return exchange->end_stream();
    bells.ring("parked");
  }
};

struct Served {
  explicit Served(const HttpLimits& limits = {}) : server(limits, handler), port(server.listen_tcp("127.0.0.1", 0)) {
    thread = std::thread([this] { server.run(); });
  }
  ~Served() { stop(); }
  void stop() {
    if (!thread.joinable()) return;
    server.stop();
    thread.join();
  }
  // Waits until so many are left.
  bool has_connections(int count) {
    for (int ms = 0; ms < kPatienceMs && server.connections() != count; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return server.connections() == count;
  }

  TestHandler handler;
  HttpServer server;
  int port;
  std::thread thread;
};

struct Reply {
  int status = 0;
  std::string head, body;

  std::string field(const std::string& name) const {
    const std::size_t at = head.find("\r\n" + name + ": ");
    if (at == head.npos) return {};
    const std::size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class RawClient {
 public:
  explicit RawClient(int port, int receive_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<std::uint16_t>(port));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) throw std::runtime_error("cannot connect");
  }
  explicit RawClient(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path.copy(name.sun_path, sizeof name.sun_path - 1);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) throw std::runtime_error("cannot connect");
  }
  RawClient(RawClient&& other) noexcept : socket_(std::exchange(other.socket_, -1)), read_(std::move(other.read_)) {}
  ~RawClient() { close(); }

  // False when the server has ended the connection.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      pollfd waits{socket_, POLLOUT, 0};
      if (::poll(&waits, 1, kPatienceMs) <= 0) throw std::runtime_error("nothing is taken");
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  bool readable(int ms) const {
    pollfd waits{socket_, POLLIN, 0};
    return ::poll(&waits, 1, ms) > 0;
  }
  Reply reply(bool to_head = false) {
    Reply reply;
    reply.head = take(until("\r\n\r\n"));
    reply.status = std::stoi(reply.head.substr(reply.head.find(' ') + 1));
    if (to_head || reply.status == 100 || reply.status == 204) return reply;
    if (const std::string length = reply.field("Content-Length"); !length.empty()) {
      while (read_.size() < std::stoul(length)) more();
      reply.body = take(std::stoul(length));
    } else if (reply.field("Transfer-Encoding") == "chunked") {
      for (std::size_t size = 1; size > 0;) {
        size = std::stoul(take(until("\r\n")), nullptr, 16);
        while (read_.size() < size + 2) more();
        reply.body += take(size);
        if (take(2) != "\r\n") throw std::runtime_error("a chunk without an end");
      }
    } else {
      reply.body = rest();
    }
    return reply;
  }
  // All that comes. Throws when the connection is reset.
  std::string rest() {
    while (receive()) {}
    return std::exchange(read_, {});
  }
  void shut_down() const { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

 private:
  bool receive() {
    if (!readable(kPatienceMs)) throw std::runtime_error("nothing comes");
    char bytes[65536];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count < 0) throw std::runtime_error(std::strerror(errno));
    read_.append(bytes, static_cast<std::size_t>(count));
    return count > 0;
  }
  void more() {
    if (!receive()) throw std::runtime_error("ended early: " + read_);
  }
  std::size_t until(std::string_view end) {
    while (read_.find(end) == read_.npos) more();
    return read_.find(end) + end.size();
  }
  std::string take(std::size_t bytes) {
    std::string taken = read_.substr(0, bytes);
    read_.erase(0, bytes);
    return taken;
  }

  int socket_;
  std::string read_;
};

inline std::string get(const std::string& path, const std::string& fields = {}) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}
inline std::string post(const std::string& path, const std::string& body, const std::string& fields = {}) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace lapidary::serve
