// Any bytes from a client: answers or a closed connection, never one that stays.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "serve/http.hpp"

namespace {

using namespace lapidary::serve;

constexpr double kLookAgainS = 0.0002;

class Echo : public Handler {
 public:
  bool refuses(const Head& head, Response& refusal) override {
    refusal.status = 404;
    return head.path == "/";
  }
  void handle(std::shared_ptr<Exchange> exchange, std::string body) override {
    if (body.size() > HttpLimits().body_bytes || exchange->head().fields.size() > 100) std::abort();
    if (body.size() % 2 == 0) return exchange->answer({.body = std::move(body)});
    exchange->begin_stream({});
    exchange->write(std::move(body));
    exchange->end_stream();
  }
  Response http_error(int status, std::string_view what, const Head*) override {
    if (status < 400 || what.empty()) std::abort();
    return {.status = status, .body = std::string(what)};
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) std::abort();
  Echo echo;
  HttpLimits limits;
  limits.send_s = limits.dropped_s = 0.01;  // nobody reads
  HttpServer server(limits, echo);
  server.serve(pair[0]);
  // The first byte says how many come at a time.
  const std::size_t piece = std::size_t{1} << (data[0] % 16);
  std::size_t sent = 1;
  std::function<void()> go_on = [&] {
    if (server.connections() == 0) return server.stop();
    const ssize_t taken = ::send(pair[1], data + sent, std::min(piece, size - sent), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken > 0) sent += static_cast<std::size_t>(taken);
    if (sent == size) ::shutdown(pair[1], SHUT_WR);
    server.after(sent == size ? kLookAgainS : 0, go_on);
  };
  server.post(go_on);
  server.run();
  ::close(pair[1]);
  return 0;
}
