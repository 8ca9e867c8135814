#include <boost/ut.hpp>
#include <filesystem>
#include <set>

#include <netinet/tcp.h>
#include <sys/stat.h>

#include "checkpoint/error.hpp"
#include "serve/raw_http.hpp"

namespace lapidary::test::http_test {
namespace {

using namespace boost::ut;
using namespace lapidary::serve;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const lapidary::Error& error) {
    return error.message();
  }
  return {};
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

suite<"HTTP"> answers = [] {
  "an answer has a length, a date, a server and two names for one id"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(post("/echo", "hello"));
    const Reply reply = client.reply();
    expect(reply.head.starts_with("HTTP/1.1 200 OK\r\n"));
    expect(reply.body == "POST hello");
    expect(reply.field("Content-Type") == "text/plain");
    expect(reply.field("Server") == "lapidary");
    expect(reply.field("Date").ends_with(" GMT") && reply.field("Date").size() == 29_ul);
    expect(reply.field("x-request-id").size() >= 24_ul);
    expect(reply.field("x-request-id") == reply.field("request-id"));
    expect(reply.field("Connection").empty());
    client.send(get("/echo", "x-request-id: mine\r\n"));
    const std::string second = client.reply().field("x-request-id");
    expect(second != reply.field("x-request-id") && second != "mine");
  };

  "pipelined requests are answered in order"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(post("/echo", "1") + get("/stream") + post("/echo", "3") + get("/echo"));
    expect(client.reply().body == "POST 1");
    expect(client.reply().body == "one,two");
    expect(client.reply().body == "POST 3");
    expect(client.reply().body == "GET ");
    expect(served.handler.bells.count("handled") == 4_i);
  };

  "one request is handled at a time"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(get("/late") + get("/echo"));
    expect(served.handler.bells.heard("held"));
    expect(!client.readable(50));
    served.server.post([&] { served.handler.held[0]->answer({.body = "late"}); });
    expect(client.reply().body == "late");
    expect(client.reply().body == "GET ");
  };

  "HEAD sends what GET would, without its body"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send("HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n" + get("/echo"));
    expect(client.reply(true).field("Content-Length") == "5");
    expect(client.reply(true).field("Transfer-Encoding") == "chunked");
    expect(client.reply().body == "GET ");
  };

  "204 has neither length nor type"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(get("/empty") + get("/echo"));
    const Reply reply = client.reply();
    expect(reply.status == 204_i && reply.field("Content-Length").empty() && reply.field("Content-Type").empty());
    expect(client.reply().body == "GET ");
  };

  "HTTP/1.0 is answered and closed"_test = [] {
    Served served;
    for (const std::string path : {"/echo", "/stream"}) {
      RawClient client(served.port);
      client.send("GET " + path + " HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n" + get("/echo"));
      const Reply reply = client.reply();
      expect(reply.status == 200_i && reply.field("Connection") == "close");
      expect(reply.field("Transfer-Encoding").empty());
      expect(reply.body == (path == "/echo" ? "GET " : "one,two"));
      expect(client.rest().empty());
    }
  };

  "a client that wants no more is not kept"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(get("/echo", "Connection: close\r\n") + get("/echo"));
    expect(client.reply().field("Connection") == "close");
    expect(client.rest().empty());
  };

  "a stream that is cut has no end"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(get("/cut"));
    client.reply(true);
    expect(client.rest() == "4\r\none,\r\n3\r\ntwo\r\n");
  };

  "an exchange that is let go of ends its connection"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(get("/forget"));
    expect(client.rest().empty());
    expect(served.has_connections(0));
  };

  "chunked bodies are put together"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3;a=b;c=\"d\"\r\nabc\r\n0002\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n" +
                get("/echo"));
    expect(client.reply().body == "POST abcde");
    expect(client.reply().body == "GET ");
  };

  "requests may come a byte at a time"_test = [] {
    Served served;
    RawClient client(served.port);
    const std::string chunked = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (const char letter : post("/echo", "slowly") + chunked + "2;a=b\r\nab\r\n0\r\nX: y\r\n\r\n" + chunked + "0\r\n\r\n") {
      client.send(std::string(1, letter));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // most of them are read alone
    }
    expect(client.reply().body == "POST slowly");
    expect(client.reply().body == "POST ab");
    expect(client.reply().body == "POST ");
  };

  "folded lines are joined, names are in lower case, the query is not of the path"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send("GET /fields?a=b HTTP/1.1\r\nHOST: a\r\nX-Long: one\r\n two\r\n\r\n");
    expect(client.reply().body == "host=a\nx-long=one two\n");
  };

  "100 comes when the body is wanted, else the answer"_test = [] {
    Served served;
    const std::string expects = "Expect: 100-Continue\r\n";
    {
      RawClient client(served.port);
      client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n" + expects + "\r\n");
      expect(client.reply().status == 100_i);
      client.send("ok" + get("/echo"));
      expect(client.reply().body == "POST ok");
      expect(client.reply().body == "GET ");
    }
    for (const auto& [path, length, status] : {std::tuple("/secret", "2", 401), std::tuple("/echo", "99999999999", 413)}) {
      RawClient client(served.port);
      client.send("POST " + std::string(path) + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + length + "\r\n" + expects + "\r\n");
      expect(that % client.reply().status == status);
      expect(client.rest().empty());
    }
  };

  "a refusal keeps a connection without a body, and ends one with"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(get("/secret"));
    const Reply reply = client.reply();
    expect(reply.status == 401_i && reply.field("WWW-Authenticate") == "Bearer");
    client.send(post("/secret", "body"));
    expect(client.reply().field("Connection") == "close");
    expect(client.rest().empty());
    expect(served.handler.bells.count("handled") == 0_i);
  };
};

suite<"clients that leave HTTP"> leaving = [] {
  "are noticed in the silence"_test = [] {
    Served served;
    const std::vector<std::function<void(RawClient&)>> ways = {
        [](RawClient& client) { client.close(); },
        [](RawClient& client) { client.reset(); },
        [](RawClient& client) { client.shut_down(); },
        [](RawClient& client) {
          client.send(get("/echo") + get("/echo"));
          client.close();
        },
    };
    int gone = 0;
    for (const auto& leave : ways) {
      RawClient client(served.port);
      client.send(get("/hold"));
      expect(served.handler.bells.heard("held", gone + 1));
      leave(client);
      expect(served.handler.bells.heard("gone", ++gone));
    }
    served.stop();
    for (const auto& exchange : served.handler.held) {
      expect(exchange->gone());
      exchange->answer({});  // nobody there, nothing done
      expect(exchange.use_count() == 1_l);
    }
  };

  "are noticed in the midst of a stream"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(get("/flood"));
    expect(served.handler.bells.heard("parked"));
    client.close();
    expect(served.handler.bells.heard("gone"));
  };

  "are not those that only send ahead"_test = [] {
    HttpLimits limits;
    limits.ahead_bytes = 1 << 10;
    Served served(limits);
    RawClient client(served.port);
    client.send(get("/late"));
    expect(served.handler.bells.heard("held"));
    std::string ahead;
    for (int i = 0; i < 200; ++i) ahead += get("/echo");
    client.send(ahead);
    expect(!client.readable(50));
    served.server.post([&] { served.handler.held[0]->answer({.body = "late"}); });
    expect(client.reply().body == "late");
    for (int i = 0; i < 200; ++i) expect(client.reply().body == "GET ");
    expect(served.handler.bells.count("gone") == 0_i);
  };

  "are told from slow ones, who get all of it"_test = [] {
    Served served;
    RawClient slow(served.port, 4096);
    slow.send(get("/flood"));
    expect(served.handler.bells.heard("parked"));
    RawClient other(served.port);
    other.send(get("/echo"));
    expect(other.reply().status == 200_i);
    expect(slow.reply().body.size() == TestHandler::kFloodBytes);
    served.stop();
    expect(served.handler.bells.count("gone") == 0_i);
    expect(served.handler.most_unsent >= HttpLimits().unsent_bytes);
    expect(served.handler.most_unsent < HttpLimits().unsent_bytes + 2 * TestHandler::kPartBytes);
  };
};

suite<"the loop of HTTP"> loop = [] {
  "takes calls from any thread, and timers that can be cancelled"_test = [] {
    Served served;
    Bells bells;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int n = 0; n < 100; ++n) served.server.post([&] { bells.ring(std::this_thread::get_id() == served.thread.get_id() ? "here" : "there"); });
      });
    for (auto& thread : threads) thread.join();
    expect(bells.heard("here", 400));
    served.server.post([&] {
      const auto cancel = served.server.after(0.01, [&] { bells.ring("cancelled"); });
      served.server.after(0.02, [&] { bells.ring("rung"); });
      cancel();
    });
    expect(bells.heard("rung"));
    expect(bells.count("cancelled") == 0_i);
  };

  "stops while connections are open, and nothing is left"_test = [] {
    const std::size_t before = open_descriptors();
    {
      Served served;
      std::vector<RawClient> clients;
      for (int i = 0; i < 8; ++i) clients.emplace_back(served.port);
      clients[0].send(get("/hold"));
      clients[1].send("GET / HT");
      clients[2].send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
      clients[3].send(get("/flood"));
      clients[4].send(get("/echo"));
      expect(clients[4].reply().status == 200_i);
      expect(served.handler.bells.heard("held") && served.handler.bells.heard("parked"));
      served.stop();
      expect(served.server.connections() == 0_i);
      expect(served.handler.bells.count("gone") == 2_i);
      expect(served.handler.held[0].use_count() == 1_l);
    }
    expect(open_descriptors() == before);
  };

  "sends what has ended before it stops"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send(get("/late"));
    expect(served.handler.bells.heard("held"));
    const std::string body(8 << 20, 'x');
    served.server.post([&] {
      served.handler.held[0]->answer({.body = body});
      served.server.stop();
    });
    expect(client.reply().body == body);
    client.close();
    served.thread.join();
  };
};

suite<"sockets of HTTP"> sockets = [] {
  const std::string folder = std::filesystem::temp_directory_path() / ("lapidary-http-" + std::to_string(::getpid()));

  "a file is for its owner, and is gone at the end"_test = [&] {
    std::filesystem::create_directories(folder);
    const std::string path = folder + "/socket";
    for (int round = 0; round < 2; ++round) {
      // The second time one is there that nobody listens on.
      if (round == 1) {
        const int stale = ::socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        path.copy(name.sun_path, sizeof name.sun_path - 1);
        expect(::bind(stale, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0_i);
        ::close(stale);
      }
      TestHandler handler;
      HttpServer server({}, handler);
      server.listen_unix(path);
      struct stat file{};
      expect(::stat(path.c_str(), &file) == 0_i && (file.st_mode & 0777) == 0600);
      std::thread thread([&] { server.run(); });
      RawClient client(path);
      client.send(get("/unix"));
      expect(client.reply().body == "unix");
      HttpServer second({}, handler);
      expect(message_of([&] { second.listen_unix(path); }) == "[--unix] " + path + ", expected a socket nobody listens on, got one in use");
      server.stop();
      thread.join();
      expect(!std::filesystem::exists(path));
    }
    std::ofstream(path) << "a file";
    TestHandler handler;
    HttpServer server({}, handler);
    expect(message_of([&] { server.listen_unix(path); }).ends_with("got a file"));
    expect(message_of([&] { server.listen_unix(std::string(200, 'x')); }).starts_with("[--unix] "));
    expect(std::filesystem::exists(path));
    std::filesystem::remove_all(folder);
  };

  "a used port and a bad address are errors that say so"_test = [] {
    Served served;
    TestHandler handler;
    HttpServer second({}, handler);
    expect(message_of([&] { second.listen_tcp("127.0.0.1", served.port); }).starts_with("[--port] cannot listen on 127.0.0.1 port"));
    expect(message_of([&] { second.listen_tcp("localhost", 0); }).starts_with("[--host] "));
    expect(message_of([&] { second.listen_tcp("127.0.0.1", 70000); }).starts_with("[--port] "));
  };

  "small parts are sent at once"_test = [] {
    Served served;
    TestHandler handler;
    HttpServer server({}, handler);
    const int connected = ::socket(AF_INET, SOCK_STREAM, 0);
    const int same = ::dup(connected);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<std::uint16_t>(served.port));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    expect(::connect(connected, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0_i);
    server.serve(connected);
    int at_once = 0;
    socklen_t size = sizeof at_once;
    expect(::getsockopt(same, IPPROTO_TCP, TCP_NODELAY, &at_once, &size) == 0_i && at_once != 0_i);
    ::close(same);
  };

  "listening and connected ones are taken over"_test = [] {
    int pair[2];
    expect(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0_i);
    const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    expect(::bind(listening, reinterpret_cast<sockaddr*>(&name), size) == 0_i && ::listen(listening, 8) == 0_i);
    ::getsockname(listening, reinterpret_cast<sockaddr*>(&name), &size);

    TestHandler handler;
    HttpServer server({}, handler);
    expect(message_of([&] { server.adopt(pair[1]); }).starts_with("[LISTEN_FDS] "));
    server.adopt(listening);
    server.serve(pair[0]);
    expect(server.connections() == 1_i);
    std::thread thread([&] { server.run(); });
    RawClient client(ntohs(name.sin_port));
    client.send(get("/unix"));
    expect(client.reply().body == "tcp");
    ::close(pair[1]);
    client.close();
    server.stop();
    thread.join();
  };
};

}  // namespace
}  // namespace lapidary::test::http_test
