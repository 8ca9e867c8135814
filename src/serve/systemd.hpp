// What systemd, or whoever speaks as it does, hands over and wants to hear: three variables and a datagram.
#pragma once

#include <string_view>
#include <vector>

namespace lapidary::serve {

// Listening sockets of this process; none where it was started by hand.
std::vector<int> sockets_handed_over();
// "READY=1", "STOPPING=1"; nothing where nobody listens.
void tell_supervisor(std::string_view state);

}  // namespace lapidary::serve
