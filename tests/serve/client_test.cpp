// Where a server is said to listen.
#include <boost/ut.hpp>

#include "serve/client.hpp"
#include "support/cases.hpp"

namespace lapidary::test::client_test {
namespace {

using namespace boost::ut;
using serve::place_of;

const suite<"client"> client = [] {
  "addresses are read, and others are refused"_test = [] {
    const struct {
      const char *url, *host, *port, *path;
    } right[] = {{"http://127.0.0.1:8080", "127.0.0.1", "8080", ""}, {"http://localhost/", "localhost", "80", ""},
                 {"http://[::1]:1/", "::1", "1", ""},                {"http://[::1]", "::1", "80", ""},
                 {"unix:/run/a b", "", "", "/run/a b"}};
    for (const auto& [url, host, port, path] : right) {
      const serve::ServerPlace place = place_of(url);
      expect(place.host == host && place.port == port && place.unix_path == path) << url;
    }
    for (const char* url : {"", "unix:", "http://", "http://:80", "http://h:", "http://h:x", "http://h:65536", "http://h:000080", "http://h/v1",
                            "http://h?x", "http://user@h", "http://a b", "http://[]:80", "http://::1:80", "http://h\n", "https://h", "h:80"}) {
      const auto error = error_of([&] { place_of(url); });
      expect(fatal(error.has_value())) << url;
      expect(error->message() == "[--connect] expected http://HOST:PORT or unix:PATH, got '" + std::string(url) + "'") << url;
    }
  };

  "a key is what a header can hold"_test = [] {
    expect(!error_of([] { serve::Client("http://localhost", "sk-1"); }));
    for (const char* key : {"a b", "a\r\nb", "\xc3\xa4"})
      expect(error_of([&] { serve::Client("http://localhost", key); })->where == "LAPIDARY_API_KEY") << key;
  };
};

}  // namespace
}  // namespace lapidary::test::client_test
