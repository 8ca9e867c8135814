// HTTP/1.1 for whoever answers: connections, framing, limits, time-outs, streams, clients that leave. One event loop on the thread
// that calls run(); no type of the library behind it is seen here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lapidary::serve {

struct HttpLimits {
  int connections = 512;
  int requests_per_connection = 1000;
  std::size_t line_bytes = 8 << 10, head_bytes = 32 << 10;
  int head_fields = 100;
  std::size_t body_bytes = 32 << 20;
  std::size_t bodies_bytes = 256 << 20;   // of all requests together, with what is made of them: see Exchange::hold()
  double idle_s = 60, head_s = 10, body_s = 30;  // the last two for all of it, however it drips
  double send_s = 30;                     // without progress, while bytes are unsent: the client counts as gone
  std::size_t unsent_bytes = 256 << 10;   // of a stream, until whoever writes should wait: theirs to look at
  std::size_t ahead_bytes = 64 << 10;     // of requests behind the one that is answered; more waits in the socket
  std::size_t dropped_bytes = 1 << 20;    // that are still read before a connection is closed
  double dropped_s = 2;
};

// All that is known before the body is read.
struct Head {
  std::string method{}, path{};   // without the query
  std::string host{}, origin{}, authorization{}, api_key{}, content_type{};
  std::vector<std::pair<std::string, std::string>> fields{};  // all, names in lower case
  bool from_unix_socket = false;
  std::string request_id{};       // made here: 128 random bits
  bool http_1_0 = false;
};

// No byte of a client goes into its fields: nothing here looks for line ends in them.
struct Response {
  using Fields = std::vector<std::pair<std::string, std::string>>;

  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  Fields fields{};  // besides Date, Server, Content-*, request ids
};

// A request that waits for its answer. On the loop's thread only, its end as well; it may outlive its connection, and does nothing
// then. For HEAD it is answered as for GET: the body stays here. Let go of without an answer, it ends the connection.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Head& head() const = 0;
  virtual void answer(Response response) = 0;          // whole
  virtual void begin_stream(Response head) = 0;        // or a part at a time: chunked; without its body
  virtual void write(std::string part) = 0;
  virtual void end_stream() = 0;                       // as a whole
  virtual void cut_stream() = 0;                       // unfinished: the connection ends after what was written
  // How much memory the request takes from now on: at first its body's. False: all of them together take more than `bodies_bytes`.
  virtual bool hold(std::size_t bytes) = 0;
  virtual std::size_t unsent_bytes() const = 0;
  virtual bool gone() const = 0;                       // the client has left
  // Called once, when the client leaves before the answer has ended (at once, if it has left already).
  virtual void on_gone(std::function<void()> call) = 0;
  // Called every time the unsent bytes of a stream have gone down to nothing.
  virtual void on_sent(std::function<void()> call) = 0;
};

class Handler {
 public:
  virtual ~Handler() = default;
  // Answers a request by its head alone: wrong path, method, key, host. True = `refusal` is the answer, the body is not read.
  virtual bool refuses(const Head& head, Response& refusal) = 0;
  virtual void handle(std::shared_ptr<Exchange> exchange, std::string body) = 0;
  // The answer to what is wrong with the HTTP itself: 400, 408, 411, 413, 414, 415, 417, 429 (bodies of all requests), 431, 503
  // (connections), 505. `what` is a whole message; `head` what is known of it, at least the request id.
  virtual Response http_error(int status, std::string_view what, const Head* head) = 0;
};

class HttpLoop;

class HttpServer {
 public:
  HttpServer(const HttpLimits& limits, Handler& handler);
  ~HttpServer();

  // Before run(), or on its thread.
  int listen_tcp(const std::string& address, int port);  // returns the port: a free one for 0
  void listen_unix(const std::string& path);             // mode 0600; removed at the end
  void adopt(int descriptor);                            // a listening socket that was handed over
  void serve(int descriptor);                            // a connected one
  // Until stop(), which ends all connections; answers that have ended are still sent, for up to `dropped_s`.
  void run();
  // From any thread.
  void stop();
  void post(std::function<void()> call);
  int connections() const;  // without those that are turned away
  // On the loop's thread: once, after so many seconds. Returns what cancels it.
  std::function<void()> after(double seconds, std::function<void()> call);

 private:
  std::unique_ptr<HttpLoop> loop_;
};

}  // namespace lapidary::serve
