// Who may ask: keys, and what keeps pages of other sites from making the machine work.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.hpp"
#include "serve/job.hpp"

namespace lapidary::serve {

struct ApiKey {
  std::string name;
  std::string sha256;  // of the key, in hexadecimal
};
// Lines of NAME KEY; empty ones and those that begin with # are skipped. `where` names them in errors.
std::vector<ApiKey> read_keys(std::string_view text, const std::string& where);
ApiKey key_of(std::string name, std::string_view key);

struct AccessRules {
  std::vector<ApiKey> keys{};                // none = everybody who may connect
  std::vector<std::string> hosts{};          // that a request may name besides loopback ones, where there is no key; without port
  std::vector<std::string> origins{};        // of pages that may ask, besides the server's own
};

bool is_loopback(std::string_view host);     // a name or address, without port

class Access {
 public:
  explicit Access(AccessRules rules) : rules_(std::move(rules)) {}

  // Host and origin; needs no key.
  std::optional<Refusal> check_site(const Head& head) const;
  // The name of the request's key, empty where none is needed; nothing where it has none that fits.
  std::optional<std::string> key_name(const Head& head) const;
  static Refusal no_key();
  // For pages of an origin that was named: what lets them read the answer. `methods`: of the answer to OPTIONS alone.
  Response::Fields cors_fields(const Head& head, std::string_view methods = {}) const;

 private:
  bool allows_origin(const std::string& origin) const;

  const AccessRules rules_;
};

}  // namespace lapidary::serve
