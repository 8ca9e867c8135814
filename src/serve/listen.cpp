#include "serve/listen.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "checkpoint/error.hpp"

namespace lapidary::serve {
namespace {

constexpr int kBacklog = 256;  // connections that wait to be accepted

// Closed again unless it is let go.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {
    if (number_ < 0) fail(ErrorKind::io, "serve", std::string("cannot have a socket: ") + std::strerror(errno));
    ::fcntl(number_, F_SETFD, FD_CLOEXEC);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

sockaddr_storage name_of_socket(int descriptor) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) != 0)
    fail(ErrorKind::io, "serve", "descriptor " + std::to_string(descriptor) + ", expected a socket, got: " + std::strerror(errno));
  return name;
}

void remove_stale(const std::string& path, const sockaddr_un& name) {
  struct stat file{};
  if (::lstat(path.c_str(), &file) != 0) return;
  if (!S_ISSOCK(file.st_mode)) fail(ErrorKind::io, "--unix", path + ", expected a socket or nothing, got a file");
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0)
    fail(ErrorKind::io, "--unix", path + ", expected a socket nobody listens on, got one in use");
  if (errno != ECONNREFUSED) fail(ErrorKind::io, "--unix", path + ", expected a socket nobody listens on, got: " + std::strerror(errno));
  ::unlink(path.c_str());
}

}  // namespace

int listen_on_tcp(const std::string& address, int port) {
  if (port < 0 || port > 65535) fail(ErrorKind::usage, "--port", "expected 0 to 65535, got " + std::to_string(port));
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0)
    fail(ErrorKind::usage, "--host", "expected an address like 127.0.0.1 or ::1, got '" + address + "'");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> held(found, ::freeaddrinfo);

  Descriptor socket(::socket(found->ai_family, SOCK_STREAM, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    const int why = errno;
    fail(ErrorKind::io, why == EADDRNOTAVAIL ? "--host" : "--port",
         "cannot listen on " + address + " port " + std::to_string(port) + ", expected a free one, got: " + std::strerror(why));
  }
  return socket.release();
}

int listen_on_unix(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof name.sun_path)
    fail(ErrorKind::usage, "--unix", "bytes of the path, expected 1 to " + std::to_string(sizeof name.sun_path - 1) + ", got " + std::to_string(path.size()));
  path.copy(name.sun_path, path.size());
  remove_stale(path, name);

  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  // The file has its mode from the beginning: nobody gets in before a chmod().
  const mode_t before = ::umask(0177);
  const bool bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  const int why = errno;
  ::umask(before);
  if (!bound) fail(ErrorKind::io, "--unix", "cannot listen on " + path + ": " + std::strerror(why));
  if (::listen(socket.get(), kBacklog) != 0) fail(ErrorKind::io, "--unix", "cannot listen on " + path + ": " + std::strerror(errno));
  return socket.release();
}

int port_of(int descriptor) {
  const sockaddr_storage name = name_of_socket(descriptor);
  if (name.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(name).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

std::string address_of(int descriptor) {
  const sockaddr_storage name = name_of_socket(descriptor);
  char address[NI_MAXHOST] = "";
  if (name.ss_family != AF_UNIX) ::getnameinfo(reinterpret_cast<const sockaddr*>(&name), sizeof name, address, sizeof address, nullptr, 0, NI_NUMERICHOST);
  return address;
}

bool is_listening(int descriptor) {
  int listens = 0;
  socklen_t size = sizeof listens;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

int family_of(int descriptor) { return name_of_socket(descriptor).ss_family; }

}  // namespace lapidary::serve
