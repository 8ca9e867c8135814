// What a supervisor hands over and is told.
#include <boost/ut.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "serve/systemd.hpp"
#include "support/cases.hpp"

namespace lapidary::test::systemd_test {
namespace {

using namespace boost::ut;
using namespace serve;

// Set while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* const name_;
};

// What arrives at a datagram socket of that name when `state` is told.
std::string heard(const std::string& name, std::string_view state) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name.front() == '@') address.sun_path[0] = '\0';
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  ::bind(socket, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()));
  const Variable variable("NOTIFY_SOCKET", name);
  tell_supervisor(state);
  char bytes[64];
  const ssize_t count = ::recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
  ::close(socket);
  return count < 0 ? "nothing" : std::string(bytes, static_cast<std::size_t>(count));
}

const suite<"systemd"> systemd = [] {
  "hands over sockets to the process it names"_test = [] {
    expect(sockets_handed_over().empty());
    const Variable count("LISTEN_FDS", "2");
    expect(sockets_handed_over().empty());
    const std::string me = std::to_string(::getpid());
    for (const std::string& pid : {std::string("1"), me + "x", std::string(), " " + me}) {
      const Variable process("LISTEN_PID", pid);
      expect(sockets_handed_over().empty()) << pid;
    }
    const Variable process("LISTEN_PID", me);
    expect(sockets_handed_over() == std::vector{3, 4});
    for (const char* wrong : {"", "-1", "two", "0"}) {
      const Variable none("LISTEN_FDS", wrong);
      expect(sockets_handed_over().empty()) << wrong;
    }
  };

  "is told over its socket, a file or not"_test = [] {
    const TemporaryFolder folder;
    expect(heard(folder.path("notify"), "READY=1") == "READY=1");
#if defined(__linux__)
    expect(heard("@lapidary-test-" + std::to_string(::getpid()), "STOPPING=1") == "STOPPING=1");
#endif
  };

  "that does not listen is no error"_test = [] {
    tell_supervisor("READY=1");
    const TemporaryFolder folder;
    const Variable nobody("NOTIFY_SOCKET", folder.path("nobody"));
    tell_supervisor("READY=1");
    expect(!std::filesystem::exists(folder.path("nobody")));
    const Variable endless("NOTIFY_SOCKET", std::string(500, 'x'));
    tell_supervisor("READY=1");
  };
};

}  // namespace
}  // namespace lapidary::test::systemd_test
