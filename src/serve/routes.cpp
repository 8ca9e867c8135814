#include "serve/routes.hpp"

namespace lapidary::serve {
namespace {

constexpr std::string_view kModel = "/v1/models/", kStoredResponse = "/v1/responses/";

constexpr RouteInfo kRoutes[] = {
    {Route::chat, "/v1/chat/completions", true},
    {Route::completions, "/v1/completions", true},
    {Route::responses, "/v1/responses", true},
    {Route::messages, "/v1/messages", true, false, true},
    {Route::count_tokens, "/v1/messages/count_tokens", true, false, true},
    {Route::models, "/v1/models"},
    {Route::embeddings, "/v1/embeddings", true},
    {Route::tokenize, "/tokenize", true},
    {Route::detokenize, "/detokenize", true},
    {Route::apply_template, "/apply-template", true},
    {Route::health, "/health", false, true},
    {Route::metrics, "/metrics"},
    {Route::slots, "/slots"},
    {Route::props, "/props"},
    {Route::page, "/", false, true},
};

}  // namespace

RouteInfo route_of(std::string_view path) {
  for (const RouteInfo& route : kRoutes)
    if (route.name == path) return route;
  if (path.starts_with(kModel) && path.size() > kModel.size()) return {Route::model, "/v1/models/ID"};
  if (path.starts_with(kStoredResponse) && path.size() > kStoredResponse.size()) return {Route::stored_response, "/v1/responses/ID"};
  return {Route::none, "other"};
}

std::string_view model_in(std::string_view path) { return path.substr(kModel.size()); }

}  // namespace lapidary::serve
