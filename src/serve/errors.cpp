#include <exception>

#include "checkpoint/error.hpp"
#include "serve/api.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

// What a client sent may be in a message: it is cut where it would get long.
constexpr std::size_t kMaxMessageBytes = 1500;

std::string cut(std::string message) {
  if (message.size() <= kMaxMessageBytes) return message;
  std::size_t end = kMaxMessageBytes;
  while ((static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;
  return message.substr(0, end) + "...";
}

std::string_view openai_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: case 421: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "api_error";
    case 503: return "overloaded_error";
    default: return "invalid_request_error";
  }
}

std::string_view anthropic_type(int status) { return status == 413 ? "request_too_large" : openai_type(status); }

Value or_null(std::string_view text) { return text.empty() ? Value() : Value(text); }

}  // namespace

Refusal caught() {
  try {
    throw;
  } catch (const Refusal& refusal) {
    return refusal;
  } catch (const Error& error) {
    const bool ours = error.kind == ErrorKind::io || error.kind == ErrorKind::out_of_memory;
    return {.status = ours ? 500 : 400, .code = ours ? "internal_error" : "invalid_value", .message = error.message()};
  } catch (const std::exception& error) {
    return {.status = 500, .code = "internal_error", .message = error.what()};
  }
}

std::string openai_error(const Refusal& refusal) {
  return text::to_json(Value::Object{{"error", Value::Object{{"message", cut(refusal.message)},
                                                             {"type", openai_type(refusal.status)},
                                                             {"param", or_null(refusal.param)},
                                                             {"code", or_null(refusal.code)}}}});
}

std::string anthropic_error(const Refusal& refusal, std::string_view request_id) {
  return text::to_json(Value::Object{{"type", "error"},
                                     {"error", Value::Object{{"type", anthropic_type(refusal.status)}, {"message", cut(refusal.message)}}},
                                     {"request_id", or_null(request_id)}});
}

}  // namespace lapidary::serve
