// What is checked of a request before its body is read, and small texts of answers' heads. Pure.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http.hpp"

namespace lapidary::serve {

struct HttpFault {
  int status;
  std::string what;  // "[where] what, expected X, got Y", without a byte of the client's
};

// Whether a head can be trusted to say where the request ends. `line_bytes`: of the request line.
std::optional<HttpFault> head_fault(const Head& head, std::size_t line_bytes, const HttpLimits& limits);
// Whether the body is one that is taken.
std::optional<HttpFault> body_fault(const Head& head, const HttpLimits& limits);
bool expects_continue(const Head& head);

HttpFault overlong_line(const HttpLimits& limits);
HttpFault overlong_head(const HttpLimits& limits);
HttpFault overfull_bodies(const HttpLimits& limits);
HttpFault bad_version(std::string_view head);  // as far as it came, or more

std::string in_lower_case(std::string_view text);  // ASCII's letters
// The first of that name, in lower case; empty = none.
std::string_view field_of(const Head& head, std::string_view name);

std::string http_date(std::time_t seconds_since_1970);  // "Sun, 06 Nov 1994 08:49:37 GMT"
std::string random_id();                                // 128 bits, in hexadecimal digits

}  // namespace lapidary::serve
