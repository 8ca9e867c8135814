// Sockets that listen. What is wrong with an address, port or path is an Error that names its flag.
#pragma once

#include <string>

namespace lapidary::serve {

int listen_on_tcp(const std::string& address, int port);  // a number, of IPv4 or IPv6; port 0 = a free one
// A file of mode 0600. One that nobody listens on any more is replaced.
int listen_on_unix(const std::string& path);

int port_of(int descriptor);
std::string address_of(int descriptor);  // a number as above; empty of a Unix socket
bool is_listening(int descriptor);
int family_of(int descriptor);  // AF_UNIX, AF_INET, AF_INET6

}  // namespace lapidary::serve
