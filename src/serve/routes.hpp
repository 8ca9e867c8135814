// Which paths there are, and who answers them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lapidary::serve {

enum class Route : std::uint8_t {
  none, chat, completions, responses, stored_response, messages, count_tokens, models, model, tokenize, detokenize, apply_template,
  embeddings, health, metrics, slots, props, page,
};

struct RouteInfo {
  Route route = Route::none;
  std::string_view name;      // for logs and metrics: nothing that a client wrote
  bool posts = false;         // POST; else GET and HEAD
  bool is_open = false;       // needs no key
  bool is_anthropic = false;  // errors have its shape

  std::string_view allowed() const { return posts ? "POST, OPTIONS" : "GET, HEAD, OPTIONS"; }
  bool allows(std::string_view method) const { return posts ? method == "POST" : method == "GET" || method == "HEAD"; }
};

// Paths are compared byte by byte.
RouteInfo route_of(std::string_view path);
// What follows /v1/models/.
std::string_view model_in(std::string_view path);

}  // namespace lapidary::serve
