#include <boost/ut.hpp>

#include "serve/raw_http.hpp"

namespace lapidary::test::http_limits_test {
namespace {

using namespace boost::ut;
using namespace lapidary::serve;

// The status, if the connection is ended after it and nobody has handled anything; else the negative.
int refused(const std::string& request, const HttpLimits& limits = {}) {
  Served served(limits);
  RawClient client(served.port);
  client.send(request);
  const Reply reply = client.reply();
  const bool ends = reply.field("Connection") == "close" && !reply.field("request-id").empty() && client.rest().empty();
  const bool handled = served.handler.bells.count("handled") + served.handler.bells.count("no request id") > 0;
  return ends && !handled ? reply.status : -reply.status;
}

int accepted(const std::string& request, const HttpLimits& limits = {}) {
  Served served(limits);
  RawClient client(served.port);
  client.send(request);
  return client.reply().status;
}

std::string post_head(const std::string& fields) { return "POST /echo HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n"; }

suite<"limits of HTTP"> limits = [] {
  "ambiguous framing is refused"_test = [] {
    const std::string chunks = "1\r\na\r\n0\r\n\r\n";
    for (const std::string& request : {
             post_head("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n") + chunks,
             post_head("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n") + chunks,
             post_head("Content-Length: 1\r\nContent-Length: 1\r\n") + "a",
             post_head("Content-Length: 1\r\nContent-Length: 2\r\n") + "aa",
             post_head("Content-Length: 1, 1\r\n") + "a",
             post_head("Content-Length: +1\r\n") + "a",
             post_head("Content-Length: -1\r\n") + "a",
             post_head("Content-Length: 0x1\r\n") + "a",
             post_head("Content-Length:\r\n"),
             post_head("Content-Length : 1\r\n") + "a",
             post_head("Content-Length: 18446744073709551617\r\n") + "a",
             post_head("Transfer-Encoding: gzip, chunked\r\n") + chunks,
             post_head("Transfer-Encoding: chunked, chunked\r\n") + chunks,
             post_head("Transfer-Encoding: identity\r\n"),
             post_head("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n") + chunks,
             post_head("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n") + chunks,
             post_head("Transfer-Encoding:\r\n"),
             "POST /echo HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
             std::string("GET /echo HTTP/1.1\r\n\r\n"),
             std::string("GET /echo HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
             std::string("GET /echo HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n"),
             std::string("GET /echo HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 39),
             std::string("GET /echo HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"),
             std::string("GET /echo HTTP/1.1\nHost: a\n\n\r\n\r\n"),
             std::string("GET /e\x7f HTTP/1.1\r\nHost: a\r\n\r\n"),
             std::string("GET /echo HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n"),
             std::string("GET /echo\r\nHost: a\r\n\r\n"),
             std::string("GET /echo HTTPS/1.1\r\nHost: a\r\n\r\n"),
             std::string("\x16\x03\x01\x02\r\n\r\n"),  // TLS
             post_head("Transfer-Encoding: chunked\r\n") + "g\r\n",
             post_head("Transfer-Encoding: chunked\r\n") + "-1\r\n",
             post_head("Transfer-Encoding: chunked\r\n") + "1\r\nabc\r\n0\r\n\r\n",
             post_head("Transfer-Encoding: chunked\r\n") + "11111111111111111\r\n",
         })
      expect(refused(request) == 400_i) << request;
  };

  "other versions are refused"_test = [] {
    expect(refused("GET /echo HTTP/2.0\r\nHost: a\r\n\r\n") == 505_i);
    expect(refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == 505_i);
    expect(refused("GET /echo HTTP/1.2\r\nHost: a\r\n\r\n") == 505_i);
  };

  "a request line may have 8 KiB"_test = [] {
    const auto line = [](std::size_t bytes) { return "GET /" + std::string(bytes - 14, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n"; };
    const auto echo = [](std::size_t bytes) { return "GET /echo?" + std::string(bytes - 19, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n"; };
    expect(accepted(echo(8 << 10)) == 200_i);
    expect(refused(line((8 << 10) + 1)) == 414_i);
    expect(refused(line(40 << 10)) == 414_i);
    expect(refused("GET /" + std::string(33 << 10, 'x')) == 414_i);
  };

  "pieces of a head are not taken for a long line"_test = [] {
    Served served;
    RawClient client(served.port);
    for (const std::string& piece : {std::string("GET /ec"), "ho HTTP/1.1\r\nHost: a\r\nX: " + std::string(20 << 10, 'y'), std::string("\r\n\r\n")}) {
      client.send(piece);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // as a rule they are read one by one
    }
    expect(client.reply().status == 200_i);
  };

  "a head may have 32 KiB in 100 fields"_test = [] {
    std::string many;
    for (int i = 0; i < 99; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
    expect(accepted(get("/echo", many)) == 200_i);
    expect(refused(get("/echo", many + "X: y\r\n")) == 431_i);
    expect(accepted(get("/echo", "X: " + std::string(31 << 10, 'y') + "\r\n")) == 200_i);
    expect(refused(get("/echo", "X: " + std::string(32 << 10, 'y') + "\r\n")) == 431_i);
    expect(refused("GET /echo HTTP/1.1\r\nX: " + std::string(64 << 10, 'y')) == 431_i);
    // Whole fields, one after the other, without an end.
    Served served;
    RawClient client(served.port);
    client.send("GET /echo HTTP/1.1\r\n");
    for (int i = 0; i < 5000 && !client.readable(0); ++i) client.send("X-Field: of some bytes\r\n");
    expect(client.reply().status == 431_i);
  };

  "a body is as long as it is when decoded"_test = [] {
    HttpLimits limits;
    limits.body_bytes = 1000;
    expect(accepted(post("/echo", std::string(1000, 'x')), limits) == 200_i);
    expect(refused(post("/echo", std::string(1001, 'x')), limits) == 413_i);
    expect(refused(post_head("Content-Length: 1001\r\n"), limits) == 413_i);  // before any of it
    std::string chunks;
    for (int i = 0; i < 1000; ++i) chunks += "1;long=extension\r\nx\r\n";
    const std::string head = post_head("Transfer-Encoding: chunked\r\n");
    expect(accepted(head + chunks + "0\r\n\r\n", limits) == 200_i);
    expect(refused(head + chunks + "1\r\nx\r\n0\r\n\r\n", limits) == 413_i);
    expect(refused(head + "3e9\r\n", limits) == 413_i);
    expect(refused(post_head("Content-Length: 99999999999999\r\n")) == 413_i);
  };

  "all bodies together have a number of bytes"_test = [] {
    HttpLimits limits;
    limits.bodies_bytes = 100'000;
    Served served(limits);
    const auto status = [&](const std::string& request) {
      RawClient client(served.port);
      client.send(request);
      return client.reply().status;
    };
    const std::string some = post("/echo", std::string(60'000, 'x'));
    std::string chunked = post_head("Transfer-Encoding: chunked\r\n");
    for (int i = 0; i < 6; ++i) chunked += "2710\r\n" + std::string(10'000, 'x') + "\r\n";
    expect(refused(post("/echo", std::string(100'001, 'x')), limits) == 429_i);
    expect(status(some) == 200_i);
    RawClient half(served.port), held(served.port);
    half.send(some.substr(0, some.size() - 1));  // is being read
    const auto wait_until_read = [&] {
      for (int i = 0; i < 5000 && status(some) == 200; ++i) {}
    };
    wait_until_read();
    expect(status(some) == 429_i && status(chunked) == 429_i);
    expect(status(post("/echo", std::string(40'000, 'x'))) == 200_i) << "there is room for it";
    half.send("x");
    expect(half.reply().status == 200_i);
    expect(status(some) == 200_i) << "what was answered takes no room";
    held.send(post("/late", std::string(60'000, 'x')));
    expect(served.handler.bells.heard("held"));
    expect(status(some) == 429_i) << "what waits for an answer does";
    served.server.post([&] { served.handler.held[0]->hold(10'000); });
    expect(status(some) == 200_i) << "and says how much";
    served.server.post([&] { served.handler.bells.ring(served.handler.held[0]->hold(100'001) ? "room" : "no room"); });
    expect(served.handler.bells.heard("no room"));
    served.server.post([&] {
      served.handler.held[0]->answer({.body = "late"});
      served.handler.held.clear();
    });
    expect(status(post("/echo", std::string(100'000, 'x'))) == 200_i);
    {
      RawClient leaves(served.port);
      leaves.send(some.substr(0, some.size() - 1));
      wait_until_read();
    }
    expect(served.has_connections(2)) << "those that have been answered";
    expect(status(post("/echo", std::string(100'000, 'x'))) == 200_i) << "nor does who left";
  };

  "a body must have a length, and be JSON for all one knows"_test = [] {
    expect(refused(post_head("")) == 411_i);
    for (const std::string fields : {"Content-Encoding: gzip\r\n", "Content-Encoding: identity\r\n", "Content-Type: multipart/form-data; boundary=x\r\n",
                                     "Content-Type: Multipart/mixed\r\n", "Content-Type: application/json; charset=latin1\r\n",
                                     "Content-Type: text/plain;a=b; CHARSET = \"utf-16\"\r\n"})
      expect(refused(post("/echo", "{}", fields)) == 415_i) << fields;
    for (const std::string fields : {"Content-Type: application/json\r\n", "Content-Type: application/json; charset=utf-8\r\n",
                                     "Content-Type: application/json;charset=\"UTF-8\"; a\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"})
      expect(accepted(post("/echo", "{}", fields)) == 200_i) << fields;
    expect(refused(post("/echo", "{}", "Expect: more\r\n")) == 417_i);
  };

  "extensions and trailers without an end take no memory"_test = [] {
    const std::string head = post_head("Transfer-Encoding: chunked\r\n");
    expect(refused(head + "1;" + std::string(256 << 10, 'x')) == 400_i);
    std::string trailers;
    for (int i = 0; i < 10'000; ++i) trailers += "X-Trailer: of some bytes\r\n";
    expect(refused(head + "1\r\nx\r\n0\r\n" + trailers) == 400_i);
  };

  "a head must come in time, however it drips, and others do not notice"_test = [] {
    HttpLimits limits;
    limits.head_s = 0.3;
    Served served(limits);
    std::vector<RawClient> dripping;
    for (int i = 0; i < 24; ++i) dripping.emplace_back(served.port);
    for (const RawClient& client : dripping) client.send("GET /echo HTTP/1.1\r\nX: ");
    for (int drip = 0; drip < 500 && !dripping.back().readable(5); ++drip) {
      for (const RawClient& client : dripping) client.send("x");
      RawClient other(served.port);
      other.send(get("/echo"));
      if (other.reply().status != 200) expect(false);
    }
    for (RawClient& client : dripping) expect(client.reply().status == 408_i);
    for (RawClient& client : dripping) client.close();
    expect(served.has_connections(0));
  };

  "so must a body"_test = [] {
    HttpLimits limits;
    limits.body_s = 0.3;
    Served served(limits);
    RawClient client(served.port);
    client.send(post_head("Content-Length: 100000\r\n"));
    for (int drip = 0; drip < 500 && !client.readable(5); ++drip) client.send("x");
    expect(client.reply().status == 408_i);
    expect(client.rest().empty());
  };

  "who is idle is closed without a word"_test = [] {
    HttpLimits limits;
    limits.idle_s = lapidary::test::kSlowBuild ? 2 : 0.1;
    Served served(limits);
    RawClient never(served.port), once(served.port), answering(served.port);
    answering.send(get("/hold"));
    once.send(get("/echo"));
    expect(once.reply().status == 200_i);
    expect(never.rest().empty());
    expect(once.rest().empty());
    expect(served.has_connections(1));  // an answer may take its time
    expect(served.handler.bells.count("gone") == 0_i);
  };

  "a connection has a number of requests"_test = [] {
    HttpLimits limits;
    limits.requests_per_connection = 3;
    Served served(limits);
    RawClient client(served.port);
    for (int i = 0; i < 4; ++i) client.send(get("/echo"));
    expect(client.reply().field("Connection").empty());
    expect(client.reply().field("Connection").empty());
    expect(client.reply().field("Connection") == "close");
    expect(client.rest().empty());
  };

  "connections have a number, and who is turned away is told"_test = [] {
    HttpLimits limits;
    limits.connections = 2;
    Served served(limits);
    RawClient first(served.port), second(served.port);
    expect(served.has_connections(2));
    for (int i = 0; i < 4; ++i) {  // and not more of those than of the others
      RawClient third(served.port);
      third.send(post("/echo", "body"));
      expect(third.reply().status == 503_i);
      expect(third.rest().empty());
    }
    first.close();
    expect(served.has_connections(1));
    RawClient fourth(served.port);
    fourth.send(get("/echo"));
    expect(fourth.reply().status == 200_i);
    second.send(get("/echo"));
    expect(second.reply().status == 200_i);
  };

  "nobody is told beyond twice as many"_test = [] {
    HttpLimits limits;
    limits.connections = 1;
    limits.dropped_s = 60;
    Served served(limits);
    RawClient first(served.port);
    expect(served.has_connections(1));
    RawClient told(served.port);
    expect(told.reply().status == 503_i);
    RawClient untold(served.port);
    expect(untold.rest().empty());
  };

  "a client that takes nothing is left"_test = [] {
    HttpLimits limits;
    limits.send_s = 0.2;
    Served served(limits);
    RawClient stream(served.port, 4096), whole(served.port, 4096);
    stream.send(get("/flood"));
    expect(served.handler.bells.heard("gone"));
    whole.send(get("/late"));
    expect(served.handler.bells.heard("held"));
    served.server.post([&] { served.handler.held[0]->answer({.body = std::string(32 << 20, 'x')}); });
    expect(served.has_connections(0));
  };

  "early answers arrive though the body is not read"_test = [] {
    Served served;
    RawClient client(served.port);
    client.send("POST /secret HTTP/1.1\r\nHost: a\r\nContent-Length: 524288\r\n\r\n");
    expect(client.reply().status == 401_i);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a server that closes would have done so
    for (int i = 0; i < 128; ++i)
      if (!client.send(std::string(4 << 10, 'x'))) expect(false) << i;  // all of it is taken, though nobody wants it
    expect(client.rest().empty());  // an end, not a reset
  };

  "what is dropped has a number of bytes"_test = [] {
    HttpLimits limits;
    limits.dropped_s = 60;
    Served served(limits);
    RawClient client(served.port);
    client.send("POST /secret HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
    expect(client.reply().status == 401_i);
    bool taken = true;
    for (int i = 0; i < 1000 && taken; ++i) taken = client.send(std::string(64 << 10, 'x'));
    expect(!taken);
  };

  "what is dropped has its time"_test = [] {
    HttpLimits limits;
    limits.dropped_s = 0.1;
    Served served(limits);
    RawClient client(served.port);
    client.send(post_head("Content-Length: 100\r\nContent-Encoding: br\r\n"));
    expect(client.reply().status == 415_i);
    expect(served.has_connections(0));
  };
};

}  // namespace
}  // namespace lapidary::test::http_limits_test
