#include "serve/http_head.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <random>

namespace lapidary::serve {
namespace {

bool same(std::string_view text, std::string_view lower_case) { return in_lower_case(text) == lower_case; }

std::string_view strip(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

auto count(const Head& head, std::string_view name) {
  return std::ranges::count(head.fields, name, [](const auto& field) { return std::string_view(field.first); });
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// Any type but several in one, and no other letters than JSON's.
bool is_readable(std::string_view content_type) {
  std::size_t end = content_type.find(';');
  const std::string_view type = strip(content_type.substr(0, end));
  if (same(type.substr(0, 10), "multipart/")) return false;
  while (end != content_type.npos) {
    const std::size_t begin = end + 1;
    end = content_type.find(';', begin);
    const std::string_view parameter = strip(content_type.substr(begin, end - begin));
    const std::size_t equals = parameter.find('=');
    if (equals == parameter.npos || !same(strip(parameter.substr(0, equals)), "charset")) continue;
    std::string_view value = strip(parameter.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    if (!same(value, "utf-8") && !same(value, "utf8")) return false;
  }
  return true;
}

}  // namespace

std::optional<HttpFault> head_fault(const Head& head, std::size_t line_bytes, const HttpLimits& limits) {
  if (line_bytes > limits.line_bytes) return overlong_line(limits);
  if (head.fields.size() > static_cast<std::size_t>(limits.head_fields))
    return HttpFault{431, "[head] fields, expected at most " + std::to_string(limits.head_fields) + ", got more"};
  if (const auto hosts = count(head, "host"); hosts != 1)
    return HttpFault{400, "[Host] how often, expected once, got " + std::to_string(hosts)};

  const auto codings = count(head, "transfer-encoding");
  const auto lengths = count(head, "content-length");
  if (codings + lengths > 1)
    return HttpFault{400, "[head] length of the body, expected one Content-Length or Transfer-Encoding, got several"};
  if (codings > 0 && !same(field_of(head, "transfer-encoding"), "chunked"))
    return HttpFault{400, "[Transfer-Encoding] expected chunked, got something else"};
  if (codings > 0 && head.http_1_0) return HttpFault{400, "[Transfer-Encoding] expected none in HTTP/1.0, got chunked"};
  const std::string_view length = field_of(head, "content-length");
  if (lengths > 0 && (length.empty() || !std::ranges::all_of(length, is_digit)))
    return HttpFault{400, "[Content-Length] expected a whole number, got something else"};
  return {};
}

std::optional<HttpFault> body_fault(const Head& head, const HttpLimits& limits) {
  if (!field_of(head, "expect").empty() && !head.http_1_0 && !expects_continue(head))
    return HttpFault{417, "[Expect] expected 100-continue, got something else"};
  if (count(head, "content-encoding") > 0) return HttpFault{415, "[Content-Encoding] expected none, got one"};
  if (!is_readable(head.content_type))
    return HttpFault{415, "[Content-Type] expected JSON in UTF-8, got several parts or another charset"};
  if (count(head, "transfer-encoding") > 0) return {};
  if (count(head, "content-length") == 0) {
    if (head.method == "POST") return HttpFault{411, "[Content-Length] expected a length or a chunked body, got neither"};
    return {};
  }
  const std::string_view digits = field_of(head, "content-length");
  std::uint64_t length = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (failed != std::errc() || length > limits.body_bytes)
    return HttpFault{413, "[body] bytes, expected at most " + std::to_string(limits.body_bytes) + ", got more"};
  return {};
}

bool expects_continue(const Head& head) { return !head.http_1_0 && same(field_of(head, "expect"), "100-continue"); }

HttpFault overlong_line(const HttpLimits& limits) {
  return {414, "[request line] bytes, expected at most " + std::to_string(limits.line_bytes) + ", got more"};
}

HttpFault overlong_head(const HttpLimits& limits) {
  return {431, "[head] bytes, expected at most " + std::to_string(limits.head_bytes) + ", got more"};
}

HttpFault overfull_bodies(const HttpLimits& limits) {
  return {429, "[body] bytes of all requests together, expected at most " + std::to_string(limits.bodies_bytes) + ", got more"};
}

HttpFault bad_version(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const std::string_view version = line.substr(line.rfind(' ') + 1);
  if (version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) && version[6] == '.' && is_digit(version[7]))
    return {505, "[request line] version, expected HTTP/1.1 or HTTP/1.0, got another"};
  return {400, "[request line] version, expected HTTP/1.1, got something else"};
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

std::string_view field_of(const Head& head, std::string_view name) {
  const auto found = std::ranges::find(head.fields, name, [](const auto& field) { return std::string_view(field.first); });
  return found == head.fields.end() ? std::string_view() : std::string_view(found->second);
}

std::string http_date(std::time_t seconds_since_1970) {
  // Not strftime(): its names are those of the user's language.
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm at{};
  gmtime_r(&seconds_since_1970, &at);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[static_cast<std::size_t>(at.tm_wday)], at.tm_mday,
                kMonths[static_cast<std::size_t>(at.tm_mon)], at.tm_year + 1900, at.tm_hour, at.tm_min, at.tm_sec);
  return text.data();
}

std::string random_id() {
  std::random_device random;
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x%08x%08x", random(), random(), random(), random());
  return text.data();
}

}  // namespace lapidary::serve
