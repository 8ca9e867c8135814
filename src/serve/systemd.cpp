#include "serve/systemd.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <string>

#include "checkpoint/environment.hpp"

namespace lapidary::serve {
namespace {

constexpr int kFirstSocket = 3;

int number_in(const char* name) {
  const std::string text = variable(name);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : -1;
}

}  // namespace

std::vector<int> sockets_handed_over() {
  std::vector<int> sockets;
  if (number_in("LISTEN_PID") == getpid())
    for (int i = 0; i < number_in("LISTEN_FDS"); ++i) sockets.push_back(kFirstSocket + i);
  return sockets;
}

void tell_supervisor(std::string_view state) {
  const std::string path = variable("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';  // a name that is no file
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
  if (descriptor < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  sendto(descriptor, state.data(), state.size(), 0, reinterpret_cast<const sockaddr*>(&address), length);
  close(descriptor);
}

}  // namespace lapidary::serve
