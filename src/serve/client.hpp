// Asks a server over HTTP, one request after the other, each on a connection of its own.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lapidary::serve {

// Where a server listens.
struct ServerPlace {
  std::string host{}, port{};  // a host of IPv6 without its brackets
  std::string unix_path{};     // instead of both
};
// "http://HOST", "http://HOST:PORT", "unix:PATH". Fails as usage on others.
ServerPlace place_of(const std::string& url);

class Client {
 public:
  // `key`: empty = none. Nothing is sent yet.
  Client(std::string url, std::string key);
  const std::string& url() const { return url_; }

  // What an answer with this status says, as it comes. It may throw, which ends the request.
  using Take = std::function<void(int status, std::string_view piece)>;
  // Posts a body of JSON, or gets where it is empty. Returns the status when all of the answer has come, and nothing once `cancel` is
  // true: the server sees the connection close. Fails where nobody listens, and where the answer breaks off.
  std::optional<int> ask(const std::string& path, const std::string& body, const std::atomic<bool>& cancel, const Take& take) const;

 private:
  const std::string url_, key_;
  const ServerPlace place_;
};

}  // namespace lapidary::serve
