#include "serve/client.hpp"

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <vector>

#include "checkpoint/error.hpp"

namespace lapidary::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Stream = asio::generic::stream_protocol;

constexpr auto kLookAtCancel = std::chrono::milliseconds(100);
constexpr std::size_t kPieceBytes = 16 << 10, kClientBufferBytes = 128 << 10;
constexpr std::string_view kHttp = "http://", kUnix = "unix:";

bool is_port(std::string_view text) {
  constexpr std::size_t kMaxDigits = 5;
  return !text.empty() && text.size() <= kMaxDigits && text.find_first_not_of("0123456789") == text.npos && std::stoi(std::string(text)) <= 65535;
}

std::vector<Stream::endpoint> endpoints_of(const ServerPlace& place, asio::io_context& io) {
  if (!place.unix_path.empty()) return {asio::local::stream_protocol::endpoint(place.unix_path)};
  std::vector<Stream::endpoint> endpoints;
  for (const auto& found : asio::ip::tcp::resolver(io).resolve(place.host, place.port)) endpoints.emplace_back(found.endpoint());
  return endpoints;
}

std::string host_field(const ServerPlace& place) {
  if (!place.unix_path.empty()) return "localhost";
  return (place.host.find(':') == place.host.npos ? place.host : "[" + place.host + "]") + ":" + place.port;
}

// One that can be given up while it waits.
class ClientConnection {
 public:
  ClientConnection(asio::io_context& io, const std::atomic<bool>& cancel) : io_(io), cancel_(cancel), socket_(io) {}

  // `start` begins what is waited for, with a handler for its end.
  template <class Start>
  error_code wait(Start start) {
    bool is_done = false;
    error_code result;
    start([&](error_code ec, const auto&...) {
      is_done = true;
      result = ec;
    });
    io_.restart();
    while (!is_done) {
      io_.run_for(kLookAtCancel);
      error_code ignored;
      if (!is_done && cancel_) socket_.close(ignored);
    }
    return result;
  }
  Stream::socket& socket() { return socket_; }

 private:
  asio::io_context& io_;
  const std::atomic<bool>& cancel_;
  Stream::socket socket_;
};

}  // namespace

ServerPlace place_of(const std::string& url) {
  std::string_view rest = url;
  if (rest.starts_with(kUnix) && rest.size() > kUnix.size()) return {.unix_path = url.substr(kUnix.size())};
  if (rest.starts_with(kHttp)) {
    rest.remove_prefix(kHttp.size());
    if (rest.ends_with('/')) rest.remove_suffix(1);
    const std::size_t colon = rest.rfind(':');
    const bool has_port = colon != rest.npos && rest.find(']', colon) == rest.npos;
    const std::string_view port = has_port ? rest.substr(colon + 1) : "80";
    std::string_view host = has_port ? rest.substr(0, colon) : rest;
    const bool is_ipv6 = host.starts_with('[') && host.ends_with(']');
    if (is_ipv6) host = host.substr(1, host.size() - 2);
    const bool is_host = !host.empty() && std::ranges::all_of(host, [](char c) { return c > ' ' && c < 0x7f; }) &&
                         host.find_first_of(is_ipv6 ? "/?#@[]" : "/?#@[]:") == host.npos;
    if (is_host && is_port(port)) return {.host = std::string(host), .port = std::string(port)};
  }
  fail(ErrorKind::usage, "--connect", "expected http://HOST:PORT or unix:PATH, got '" + url + "'");
}

Client::Client(std::string url, std::string key) : url_(std::move(url)), key_(std::move(key)), place_(place_of(url_)) {
  if (!std::ranges::all_of(key_, [](char c) { return c > ' ' && c < 0x7f; }))
    fail(ErrorKind::usage, "LAPIDARY_API_KEY", "expected letters, digits and signs without spaces, got others");
}

std::optional<int> Client::ask(const std::string& path, const std::string& body, const std::atomic<bool>& cancel, const Take& take) const {
  asio::io_context io;
  ClientConnection connection(io, cancel);
  Stream::socket& socket = connection.socket();
  try {
    const auto endpoints = endpoints_of(place_, io);
    const error_code ec = connection.wait([&](auto done) { asio::async_connect(socket, endpoints, done); });
    if (cancel) return std::nullopt;
    if (ec) throw boost::system::system_error(ec);
  } catch (const boost::system::system_error& error) {
    fail(ErrorKind::io, url_, "cannot be reached: " + error.code().message());
  }
  const auto broken = [&](error_code ec) -> std::optional<int> {
    if (cancel) return std::nullopt;
    fail(ErrorKind::io, url_, "broke off, expected the end of the answer, got: " + ec.message());
  };

  http::request<http::string_body> request(body.empty() ? http::verb::get : http::verb::post, path, 11);
  request.set(http::field::host, host_field(place_));
  request.set(http::field::user_agent, "lapidary");
  request.set(http::field::connection, "close");
  if (!key_.empty()) request.set(http::field::authorization, "Bearer " + key_);
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  // A refusal may come before all has been sent: it is read whatever becomes of the rest.
  (void)connection.wait([&](auto done) { http::async_write(socket, request, done); });
  if (cancel) return std::nullopt;

  beast::flat_buffer buffer(kClientBufferBytes);
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  if (const error_code ec = connection.wait([&](auto done) { http::async_read_header(socket, buffer, parser, done); })) return broken(ec);
  const auto status = static_cast<int>(parser.get().result_int());
  std::array<char, kPieceBytes> piece;
  while (!parser.is_done()) {
    auto& into = parser.get().body();
    into.data = piece.data();
    into.size = piece.size();
    const error_code ec = connection.wait([&](auto done) { http::async_read_some(socket, buffer, parser, done); });
    if (cancel) return std::nullopt;
    if (const std::size_t bytes = piece.size() - into.size; bytes > 0) take(status, {piece.data(), bytes});
    if (ec && ec != http::error::need_buffer) return broken(ec);
  }
  return status;
}

}  // namespace lapidary::serve
