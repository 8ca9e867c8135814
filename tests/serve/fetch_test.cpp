// Pictures from hosts that a server was told of: an https server on this machine, by the names of others.
#include <boost/ut.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdio>
#include <thread>

#include "serve/fetch.hpp"
#include "serve/requests.hpp"
#include "serve/running_server.hpp"
#include "support/program.hpp"

namespace lapidary::test::fetch_test {
namespace {

using namespace boost::ut;
using namespace serve;

const std::string kPicture = kRoot + "/models/examples/shapes.png", kShapesText = "A yellow diamond and a white diamond.";
const std::string kHost = "pictures.example", kUrl = "https://" + kHost;
constexpr std::size_t kMostBytes = 1'000'000;
constexpr double kPlenty = kPatienceMs / 1000.;

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

// It has a certificate for pictures.example alone.
class HttpsServer {
 public:
  HttpsServer() {
    const Outcome made = shell("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" + kHost + " -addext subjectAltName=DNS:" +
                               kHost + " -keyout " + folder_.path("key") + " -out " + certificate());
    if (made.status != 0) throw std::runtime_error(made.err);
    const std::string words[] = {kRoot + "/tests/serve/https_server.py", certificate(), folder_.path("key"), kPicture, folder_.path("port")};
    std::string command = "exec python3";
    for (const std::string& word : words) command += " '" + word + "'";
    process_ = ::popen(command.c_str(), "w");
    for (int ms = 0; ms < kPatienceMs && (port_ = read_all(folder_.path("port"))).empty(); ms += 5) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ~HttpsServer() { ::pclose(process_); }

  std::string certificate() const { return folder_.path("certificate"); }
  // As the product has them, but for where the hosts are, whom to believe, and that a machine's own address will do.
  FetchRules rules() const {
    return {.hosts = {kHost, "other.example"}, .may_connect = [](const sockaddr&) { return true; }, .authorities = certificate(),
            .connect_to = "::127.0.0.1:" + port_};
  }

 private:
  const TemporaryFolder folder_;
  std::FILE* process_ = nullptr;
  std::string port_;
};

const HttpsServer& https() {
  static const HttpsServer server;
  return server;
}

// What is at fault, or "ok".
std::string fault_of(const FetchRules& rules, const std::string& url, const FetchLimits& limits = {.bytes = kMostBytes, .seconds = kPlenty}) {
  const auto error = error_of([&] { make_fetcher(rules)->fetch(url, "p", limits); });
  return error ? error->message() : "ok";
}

bool is_public(const std::string& text) {
  sockaddr_storage storage{};
  auto& four = reinterpret_cast<sockaddr_in&>(storage);
  auto& six = reinterpret_cast<sockaddr_in6&>(storage);
  const bool is_four = ::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1;
  storage.ss_family = is_four ? AF_INET : AF_INET6;
  expect(is_four || ::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) << text;
  return serve::is_public(reinterpret_cast<const sockaddr&>(storage));
}

const suite<"addresses"> addresses = [] {
  "of the internet are public"_test = [] {
    for (const char* text : {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0",
                             "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
                             "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2001:200::1", "2606:4700::1111", "2a00:1450::1", "3ffe:ffff::1"})
      expect(is_public(text)) << text;
  };

  "of machines themselves and of networks inside are not"_test = [] {
    for (const char* text : {"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1", "127.255.255.255", "169.254.0.0",
                             "169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.0.0", "192.168.255.255", "198.18.0.0",
                             "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.0", "255.255.255.255",
                             "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "::ffff:0:7f00:1", "64:ff9b::127.0.0.1", "64:ff9b::192.168.1.1",
                             "64:ff9b:1::101:101", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:101:101::", "3fff::1", "4000::1", "fc00::1", "fdff::1", "fe80::1",
                             "febf::1", "fec0::1", "ff02::1"})
      expect(!is_public(text)) << text;
    sockaddr other{};
    other.sa_family = AF_UNIX;
    expect(!serve::is_public(other));
  };

  "may be fetched over https, from one of the hosts, at its usual port, by nobody in particular"_test = [] {
    const auto fetcher = make_fetcher({.hosts = {kHost, "Two.Example"}});
    for (const char* url : {"https://pictures.example/a.png", "HTTPS://PICTURES.example", "https://pictures.example:443/?a=b#c", "https://two.example/"})
      expect(fetcher->allows(url)) << url;
    for (const char* url :
         {"http://pictures.example/a.png", "ftp://pictures.example/a.png", "file:///etc/passwd", "file://pictures.example/a.png", "pictures.example/a.png", "//pictures.example/a.png",
          "/a.png", "", "https://", "https:///a.png", "https://example/", "https://a.pictures.example/", "https://pictures.example.org/", "https://pictures.example./",
          "https://pictures.example:8443/", "https://pictures.example:80/", "https://pictures.example:x/", "https://me@pictures.example/", "https://me:you@pictures.example/",
          "https://pictures.example@evil.example/", "https://evil.example#@pictures.example/", "https://evil.example?pictures.example", "https://evil.example\\@pictures.example/",
          "https://127.0.0.1/", "https://[::1]/", "https://pictures.example /", "gopher://pictures.example/"})
      expect(!fetcher->allows(url)) << url;
    for (const char* host : {"", "https://pictures.example", "pictures.example/", "pictures.example:443", "me@pictures.example", "*", "*.example", "a b", "a,b"}) {
      const auto error = error_of([&] { make_fetcher({.hosts = {host}}); });
      expect(error && error->kind == ErrorKind::usage && error->where == "--allow-media-from") << host;
    }
  };
};

const suite<"pictures from elsewhere"> pictures_from_elsewhere = [] {
  "are fetched byte by byte"_test = [] {
    const std::string picture = read_all(kPicture);
    expect(make_fetcher(https().rules())->fetch(kUrl + "/shapes.png", "p", {.bytes = picture.size(), .seconds = kPlenty}) == picture);
    expect(make_fetcher(https().rules())->fetch("https://PICTURES.example:443/shapes.png", "p", {.bytes = picture.size(), .seconds = kPlenty}) == picture);
  };

  "are not fetched from addresses inside, and whoever asks learns nothing of these"_test = [] {
    const std::string unreachable = "[p] picture, expected it from pictures.example, got no connection that lasts";
    FetchRules rules = https().rules();
    rules.may_connect = FetchRules().may_connect;
    expect(fault_of(rules, kUrl + "/shapes.png") == unreachable) << fault_of(rules, kUrl + "/shapes.png");
    rules = https().rules();
    rules.connect_to = "::127.0.0.1:1";
    expect(fault_of(rules, kUrl + "/shapes.png") == unreachable) << "nobody listens there";
    rules.connect_to = "::nowhere.invalid:443";
    expect(fault_of(rules, kUrl + "/shapes.png") == unreachable) << "there is no such name";
    expect(fault_of(https().rules(), kUrl + "/short") == unreachable) << "it ends early";
  };

  "come from who shows that it is the host"_test = [] {
    const std::string refused = "got a certificate that does not hold";
    expect(has(fault_of(https().rules(), "https://other.example/shapes.png"), refused)) << "it is another's";
    FetchRules rules = https().rules();
    rules.authorities = FetchRules().authorities;
    expect(has(fault_of(rules, kUrl + "/shapes.png"), refused)) << "nobody vouches for it";
  };

  "that are not there, or somewhere else, are not looked for"_test = [] {
    expect(fault_of(https().rules(), kUrl + "/missing") == "[p] picture, expected it from pictures.example, got status 404");
    expect(fault_of(https().rules(), kUrl + "/moved") == "[p] picture, expected it from pictures.example, got status 302");
  };

  "have an end, whether they say so or not"_test = [] {
    const std::string too_large = "[p] file, expected at most 1000000 bytes, got more";
    expect(fault_of(https().rules(), kUrl + "/announced") == too_large) << fault_of(https().rules(), kUrl + "/announced");
    expect(fault_of(https().rules(), kUrl + "/endless") == too_large) << fault_of(https().rules(), kUrl + "/endless");
    const std::size_t bytes = read_all(kPicture).size();
    expect(has(fault_of(https().rules(), kUrl + "/shapes.png", {.bytes = bytes - 1, .seconds = kPlenty}), "bytes, got more"));
  };

  "come in time"_test = [] {
    for (const char* path : {"/slow", "/silent"}) {
      const std::string fault = fault_of(https().rules(), kUrl + path, {.bytes = kMostBytes, .seconds = 0.3});
      expect(has(fault, "got no end in time")) << fault;
    }
    expect(has(fault_of(https().rules(), kUrl + "/shapes.png", {.bytes = kMostBytes, .seconds = -1}), "got no end in time")) << "others took it all";
  };

  "nobody waits for are not waited for"_test = [] {
    std::atomic<bool> cancelled = false;
    std::string fault;
    std::thread asks([&] { fault = fault_of(https().rules(), kUrl + "/slow", {.bytes = kMostBytes, .seconds = 10 * kPlenty, .cancelled = &cancelled}); });
    cancelled = true;
    asks.join();
    expect(has(fault, "no connection that lasts")) << fault;
  };
};

std::string chat_with(const std::string& url) {
  return R"({"temperature":0,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" + url + R"("}},{"type":"text","text":"What is in this picture?"}]}]})";
}
std::string response_with(const std::string& url) {
  return R"({"temperature":0,"input":[{"role":"user","content":[{"type":"input_image","image_url":")" + url + R"("},{"type":"input_text","text":"What is in this picture?"}]}]})";
}
std::string message_with(const std::string& source) {
  return R"({"max_tokens":50,"temperature":0,"messages":[{"role":"user","content":[{"type":"image","source":)" + source + R"(},{"type":"text","text":"What is in this picture?"}]}]})";
}

const suite<"a server that fetches"> server_that_fetches = [] {
  "sees pictures from elsewhere in every API, and refuses what it cannot get"_test = [] {
    RunningServer server(pebble_with(1), {.fetcher = make_fetcher(https().rules())});
    const std::string url = kUrl + "/shapes.png", source = R"({"type":"url","url":")";
    for (const auto& [path, body] : {std::pair{"/v1/chat/completions", chat_with(url)}, {"/v1/responses", response_with(url)}, {"/v1/messages", message_with(source + url + "\"}")}}) {
      const Reply reply = server.post(path, body);
      expect(reply.status == 200_i && has(reply.body, kShapesText)) << path << reply.body;
    }
    const auto refused = [&](const std::string& path, const std::string& body, const std::string& words) {
      const Reply reply = server.post(path, body);
      expect(reply.status == 400_i && has(reply.body, words)) << path << reply.body;
    };
    refused("/v1/chat/completions", chat_with(kUrl + "/missing"), "[messages[0].content[0].image_url.url] picture, expected it from pictures.example, got status 404");
    refused("/v1/responses", response_with(kUrl + "/missing"), "[input[0].content[0].image_url] picture, ");
    refused("/v1/messages", message_with(source + kUrl + "/missing\"}"), "[messages[0].content[0].source.url] picture, ");
    refused("/v1/messages/count_tokens", message_with(source + kUrl + "/missing\"}"), "[messages[0].content[0].source.url] picture, ");
    refused("/v1/chat/completions", chat_with("http://pictures.example/x"),
            R"([messages[0].content[0].image_url.url] expected data:TYPE;base64,... or https://HOST/... with a HOST of --allow-media-from, got \"http://pictures.example/x\")");
    refused("/v1/responses", response_with("https://evil.example/x"), "[input[0].content[0].image_url] expected data:");
    refused("/v1/messages", message_with(R"({"type":"url","url":"file:///etc/passwd"})"), "[messages[0].content[0].source.url] expected https://HOST/");
    refused("/v1/messages", message_with(R"({"type":"url"})"), "[messages[0].content[0].source.url] expected a text, got nothing");
    refused("/v1/messages", message_with(R"({"type":"url","url":")" + url + R"(","data":"x"})"), "[messages[0].content[0].source.data] expected a known field");
    refused("/v1/messages", message_with(R"({"type":"file","file_id":"x"})"), R"([messages[0].content[0].source.type] expected \"base64\" or \"url\", as no files are kept)");
    expect(!has(server.log(), kHost)) << server.log();
  };

  "keeps nobody else waiting for them"_test = [] {
    RunningServer server(pebble_with(1), {.fetcher = make_fetcher(https().rules())});
    const RawClient waits = server.sent(post("/v1/chat/completions", chat_with(kUrl + "/silent")));
    const RawClient counts = server.sent(post("/v1/messages/count_tokens", message_with(R"({"type":"url","url":")" + kUrl + R"(/silent"})")));
    expect(server.post("/tokenize", R"({"content":"x"})").status == 200_i);
    expect(server.post("/v1/chat/completions", R"({"max_tokens":1,"messages":[{"role":"user","content":"https://pictures.example."}]})").status == 200_i);
    expect(!waits.readable(0) && !counts.readable(0));
  };

  "lets go of what nobody waits for"_test = [] {
    RunningServer server(pebble_with(1), {.fetcher = make_fetcher(https().rules())});
    RawClient leaves = server.sent(post("/v1/chat/completions", chat_with(kUrl + "/silent")));
    const auto begin = std::chrono::steady_clock::now();
    leaves.close();
    expect(server.post("/tokenize", R"({"content":"x"})").status == 200_i);
    expect(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8)) << "of the 10 that a request has";
    expect(server.has_metric(R"(lapidary_cancelled_total{reason="client"})", 1));
  };
};

}  // namespace
}  // namespace lapidary::test::fetch_test
