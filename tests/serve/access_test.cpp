// Who may ask: keys, hosts, origins.
#include <boost/ut.hpp>

#include "serve/access.hpp"
#include "support/cases.hpp"

namespace lapidary::test::access_test {
namespace {

using namespace boost::ut;
using namespace serve;

const std::string kSha256OfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string site(const AccessRules& rules, const Head& head) {
  const auto refusal = Access(rules).check_site(head);
  return refusal ? std::to_string(refusal->status) + " " + std::string(refusal->code) : "ok";
}

const suite<"keys"> keys = [] {
  "are kept as digests"_test = [] {
    expect(key_of("me", "abc").sha256 == kSha256OfAbc);
  };

  "stand in lines of a name and a key"_test = [] {
    const auto read = read_keys("# whose\n\nme abc\r\n  you\t xyz \nlast 1", "keys");
    expect(read.size() == 3_ul);
    expect(read[0].name == "me" && read[0].sha256 == kSha256OfAbc);
    expect(read[1].name == "you" && read[1].sha256 == key_of("", "xyz").sha256);
    expect(read[2].name == "last" && read[2].sha256 == key_of("", "1").sha256);
  };

  "that are written wrongly are refused without a word of them"_test = [] {
    for (const char* text : {"", "\n", "# none", "me", "secret\n", "me secret again", "me 1\nme 2"}) {
      const auto error = error_of([&] { read_keys(text, "keys"); });
      expect(error.has_value()) << text;
      if (error) expect(error->where == "keys" && error->what.find("secret") == std::string::npos) << error->message();
    }
    expect(error_of([] { read_keys("\nme", "keys"); })->what.starts_with("line 2,"));
    expect(outcome_of([] { read_keys("me 1\nme 2", "keys"); }) == "duplicate_name");
  };

  "come as Bearer in any case, or as x-api-key"_test = [] {
    const Access access({.keys = {key_of("me", "abc"), key_of("you", "xyz")}});
    for (const char* value : {"Bearer abc", "bearer abc", "BEARER abc", "bEaReR   abc"})
      expect(access.key_name({.authorization = value}) == "me") << value;
    expect(access.key_name({.api_key = "xyz"}) == "you");
    for (const char* value : {"", "Bearer", "Bearer ", "Bearer    ", "abc", "Basic abc", "Bearer ab", "Bearer abcd", "Bearer ABC", "Bearerabc", "Bearer abc ", "Bearer\tabc"})
      expect(!access.key_name({.authorization = value})) << value;
    expect(!access.key_name({.api_key = "Bearer abc"}));
    expect(!access.key_name({.api_key = kSha256OfAbc})) << "a digest is no key";
    expect(!access.key_name({}));
  };

  "are not needed where there are none"_test = [] {
    expect(Access({}).key_name({}) == "");
    expect(Access({}).key_name({.authorization = "Bearer anything"}) == "");
    expect(Access::no_key().status == 401_i && Access::no_key().code == "invalid_api_key");
  };
};

const suite<"hosts"> hosts = [] {
  "are loopback names without a key, with and without port"_test = [] {
    for (const char* host : {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080", "127.1.2.3:1", "[::1]", "[::1]:8080"})
      expect(site({}, {.host = host}) == "ok") << host;
    for (const char* host : {"", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.nip.io", "127.evil", "128.0.0.1", "[::2]:8080", "[::1", "0.0.0.0"})
      expect(site({}, {.host = host}) == "421 wrong_host") << host;
  };

  "may be named besides, in brackets or not"_test = [] {
    const AccessRules rules{.hosts = {"Box.example", "fd00::1"}};
    for (const char* host : {"box.example", "BOX.EXAMPLE:80", "[fd00::1]:8080", "[FD00::1]"}) expect(site(rules, {.host = host}) == "ok") << host;
    expect(site({.hosts = {"[fd00::1]"}}, {.host = "[fd00::1]:8080"}) == "ok");
    expect(site(rules, {.host = "box.example.evil"}) == "421 wrong_host");
  };

  "do not matter with a key or on a Unix socket"_test = [] {
    expect(site({.keys = {key_of("me", "abc")}}, {.host = "any.example"}) == "ok");
    expect(site({}, {.host = "any.example", .from_unix_socket = true}) == "ok");
  };

  "of this machine alone are loopback"_test = [] {
    for (const char* host : {"localhost", "127.0.0.1", "127.255.0.9", "::1"}) expect(is_loopback(host)) << host;
    for (const char* host : {"", "0.0.0.0", "::", "10.0.0.1", "localhosts", "127"}) expect(!is_loopback(host)) << host;
  };
};

const suite<"origins"> origins = [] {
  "are the server's own, or were named"_test = [] {
    const AccessRules rules{.origins = {"https://app.example"}};
    for (const char* origin : {"", "http://localhost:8080", "https://localhost:8080", "https://app.example"})
      expect(site(rules, {.host = "localhost:8080", .origin = origin}) == "ok") << origin;
    for (const char* origin : {"null", "http://localhost", "http://localhost:8081", "http://evil.example", "http://app.example", "https://app.example.evil", "ftp://localhost:8080"})
      expect(site(rules, {.host = "localhost:8080", .origin = origin}) == "403 forbidden_origin") << origin;
  };

  "are looked at with a key, too"_test = [] {
    expect(site({.keys = {key_of("me", "abc")}}, {.host = "box.example", .origin = "http://evil.example"}) == "403 forbidden_origin");
    expect(site({.keys = {key_of("me", "abc")}}, {.host = "box.example", .origin = "https://box.example"}) == "ok");
  };

  "that were named may read the answer, others may not"_test = [] {
    const Access access({.origins = {"https://app.example"}});
    expect(access.cors_fields({.host = "localhost", .origin = "http://localhost"}).empty());
    expect(access.cors_fields({.host = "localhost"}).empty());
    const auto fields = access.cors_fields({.origin = "https://app.example"});
    expect(fields.size() == 2_ul && fields[0] == std::pair<std::string, std::string>("Access-Control-Allow-Origin", "https://app.example"));
    expect(access.cors_fields({.origin = "https://app.example"}, "POST, OPTIONS").size() == 4_ul);
  };
};

}  // namespace
}  // namespace lapidary::test::access_test
