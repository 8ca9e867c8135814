// Pictures that lie elsewhere: fetched over https, from hosts that the server was told of.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

struct sockaddr;

namespace lapidary::serve {

// Whether an address is one of the internet's: no machine's own, no private network's, nothing that leads to one.
bool is_public(const sockaddr& address);

struct FetchRules {
  std::vector<std::string> hosts{};               // by the names that addresses must have
  bool (*may_connect)(const sockaddr&) = is_public;  // asked after names were resolved
  std::string authorities{};                      // file of certificates to believe; empty: the system's
  std::string connect_to{};                       // "HOST:443:ADDRESS:PORT": where that host is in truth; empty: where its name says
};

struct FetchLimits {
  std::size_t bytes = 0;
  double seconds = 0;
  const std::atomic<bool>* cancelled = nullptr;  // ends it within a second
};

class Fetcher {
 public:
  virtual ~Fetcher() = default;
  // An https address of one of the hosts, at the usual port, for nobody in particular.
  virtual bool allows(const std::string& url) const = 0;
  // What lies there. Takes a while. Fails with `where`, and tells nothing of the network around the server.
  virtual std::string fetch(const std::string& url, const std::string& where, const FetchLimits& limits) const = 0;
};

// Fails for what is no host's name. Programs that are cut have none of this.
std::unique_ptr<Fetcher> make_fetcher(FetchRules rules);

}  // namespace lapidary::serve
