#include "serve/page.hpp"

#include <charconv>
#include <cstdint>
#include <span>

#include "checkpoint/sha256.hpp"
#include "text/base64.hpp"

namespace lapidary::serve {
namespace {

// What stands between <TAG> and </TAG>, which the page has once.
std::string_view element(std::string_view tag) {
  const std::string open = "<" + std::string(tag) + ">", close = "</" + std::string(tag) + ">";
  const std::string_view html = page_html();
  const std::size_t begin = html.find(open) + open.size();
  return html.substr(begin, html.find(close, begin) - begin);
}

// SHA-256 in base 64.
std::string digest(std::string_view text) {
  const std::string hex = sha256_hex(std::as_bytes(std::span(text)));
  std::string bytes;
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    std::uint8_t byte = 0;
    std::from_chars(&hex[at], &hex[at] + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return text::to_base64(bytes);
}

}  // namespace

std::string page_policy() {
  return "default-src 'none'; script-src 'sha256-" + digest(element("script")) + "'; style-src 'sha256-" + digest(element("style")) +
         "'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

std::vector<std::pair<std::string, std::string>> page_fields() {
  return {{"Content-Security-Policy", page_policy()},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"X-Frame-Options", "DENY"},
          {"Cache-Control", "no-cache"}};
}

}  // namespace lapidary::serve
