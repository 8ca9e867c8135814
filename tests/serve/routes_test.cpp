// Paths, byte by byte.
#include <boost/ut.hpp>

#include "serve/routes.hpp"

namespace lapidary::test::routes_test {
namespace {

using namespace boost::ut;
using namespace serve;

const suite<"routes"> routes = [] {
  "are found by their paths"_test = [] {
    for (const auto& [path, route] : {std::pair<const char*, Route>{"/v1/chat/completions", Route::chat}, {"/v1/completions", Route::completions},
                                      {"/v1/responses", Route::responses}, {"/v1/messages", Route::messages}, {"/v1/messages/count_tokens", Route::count_tokens},
                                      {"/tokenize", Route::tokenize}, {"/detokenize", Route::detokenize}, {"/apply-template", Route::apply_template},
                                      {"/v1/embeddings", Route::embeddings}}) {
      const RouteInfo found = route_of(path);
      expect(found.route == route && found.name == path) << path;
      expect(found.allows("POST") && !found.allows("GET") && !found.allows("HEAD") && !found.allows("PUT") && !found.allows("post")) << path;
      expect(found.allowed() == "POST, OPTIONS") << path;
      expect(!found.is_open) << path;
      expect(found.is_anthropic == (route == Route::messages || route == Route::count_tokens)) << path;
    }
    for (const auto& [path, route] : {std::pair<const char*, Route>{"/v1/models", Route::models}, {"/health", Route::health}, {"/metrics", Route::metrics},
                                      {"/slots", Route::slots}, {"/props", Route::props}, {"/", Route::page}}) {
      const RouteInfo found = route_of(path);
      expect(found.route == route && found.name == path) << path;
      expect(found.allows("GET") && found.allows("HEAD") && !found.allows("POST") && !found.allows("DELETE")) << path;
      expect(found.allowed() == "GET, HEAD, OPTIONS") << path;
      expect(found.is_open == (route == Route::health || route == Route::page)) << path;
    }
  };

  "with an id have a name without it"_test = [] {
    expect(route_of("/v1/models/a/b").route == Route::model && route_of("/v1/models/a/b").name == "/v1/models/ID");
    expect(model_in("/v1/models/a/b") == "a/b");
    expect(route_of("/v1/responses/resp_1").route == Route::stored_response && route_of("/v1/responses/resp_1").name == "/v1/responses/ID");
    expect(!route_of("/v1/models/a").is_open && !route_of("/v1/responses/a").is_open);
  };

  "are neither decoded nor normalised"_test = [] {
    for (const char* path : {"", "//", "/v1", "/v1/", "/v1/chat/completions/", "/V1/chat/completions", "/v1//chat/completions", "/v1/./chat/completions",
                             "/v1/%63hat/completions", "/health/", "/health ", "health", "/v1/models/", "/v1/responses/", "*", "/v1/chat/completions\n"}) {
      expect(route_of(path).route == Route::none && route_of(path).name == "other") << path;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::routes_test
