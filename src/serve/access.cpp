#include "serve/access.hpp"

#include <algorithm>

#include "checkpoint/error.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/sha256.hpp"
#include "serve/http_head.hpp"

namespace lapidary::serve {
namespace {

constexpr std::string_view kSpace = " \t\r";

// "::1" of "[::1]".
std::string without_brackets(std::string_view host) {
  return in_lower_case(host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host);
}

// "localhost" of "localhost:8080", "::1" of "[::1]:8080".
std::string name_in(std::string_view host) {
  const std::size_t end = host.starts_with('[') ? host.find(']') : std::string_view::npos;
  return without_brackets(host.substr(0, end != std::string_view::npos ? end + 1 : host.rfind(':')));
}

// Takes as long whatever they are: how much of a key was right must not show.
bool same_digest(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size() || in_lower_case(authorization.substr(0, kScheme.size())) != kScheme) return {};
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' ', kScheme.size()), authorization.size()));
  return authorization;
}

}  // namespace

ApiKey key_of(std::string name, std::string_view key) { return {std::move(name), sha256_hex(std::as_bytes(std::span(key)))}; }

std::vector<ApiKey> read_keys(std::string_view text, const std::string& where) {
  std::vector<ApiKey> keys;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
    line = line.substr(0, line.find_last_not_of(kSpace) + 1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t space = line.find_first_of(kSpace);
    const std::string name(line.substr(0, space));
    const std::size_t key = space == std::string_view::npos ? space : line.find_first_not_of(kSpace, space);
    // What stands there is nobody's business: it may be a key.
    if (key == std::string_view::npos || line.find_first_of(kSpace, key) != std::string_view::npos)
      fail(ErrorKind::bad_value, where, "line " + std::to_string(number) + ", expected a name and a key, got another number of words");
    if (std::ranges::find(keys, name, &ApiKey::name) != keys.end())
      fail(ErrorKind::duplicate_name, where, "line " + std::to_string(number) + ", expected a name of its own, got " + printable(name) + " again");
    keys.push_back(key_of(name, line.substr(key)));
  }
  if (keys.empty()) fail(ErrorKind::bad_value, where, "expected lines with a name and a key, got none");
  return keys;
}

bool is_loopback(std::string_view host) {
  const std::string name = in_lower_case(host);
  return name == "localhost" || name == "::1" ||
         (name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string::npos);
}

bool Access::allows_origin(const std::string& origin) const { return std::ranges::find(rules_.origins, origin) != rules_.origins.end(); }

Response::Fields Access::cors_fields(const Head& head, std::string_view methods) const {
  if (!allows_origin(head.origin)) return {};
  Response::Fields fields{{"Access-Control-Allow-Origin", head.origin}, {"Vary", "Origin"}};
  if (methods.empty()) return fields;
  fields.emplace_back("Access-Control-Allow-Methods", methods);
  fields.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key");
  return fields;
}

std::optional<Refusal> Access::check_site(const Head& head) const {
  const std::string host = name_in(head.host);
  const bool known = is_loopback(host) || std::ranges::find(rules_.hosts, host, without_brackets) != rules_.hosts.end();
  if (rules_.keys.empty() && !head.from_unix_socket && !known)
    return Refusal{.status = 421, .code = "wrong_host", .message = "[Host] expected a loopback name or one of --allowed-host, got another"};
  const bool own = head.origin == "http://" + head.host || head.origin == "https://" + head.host;
  if (!head.origin.empty() && !own && !allows_origin(head.origin))
    return Refusal{.status = 403, .code = "forbidden_origin", .message = "[Origin] expected the server's own or one of --cors-origin, got another"};
  return std::nullopt;
}

std::optional<std::string> Access::key_name(const Head& head) const {
  if (rules_.keys.empty()) return "";
  const std::string_view given = head.api_key.empty() ? bearer_of(head.authorization) : std::string_view(head.api_key);
  const std::string digest = key_of("", given).sha256;
  const ApiKey* found = nullptr;
  for (const ApiKey& key : rules_.keys)
    if (same_digest(key.sha256, digest)) found = &key;
  return found ? std::optional(found->name) : std::nullopt;
}

Refusal Access::no_key() {
  return {.status = 401, .code = "invalid_api_key", .message = "[Authorization] expected Bearer and a key of this server, got none that fits"};
}

}  // namespace lapidary::serve
