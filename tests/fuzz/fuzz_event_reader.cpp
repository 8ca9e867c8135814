// Any bytes from a server, in any pieces: the events of all of them at once, and lines that hold no end of one.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "serve/event_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using lapidary::serve::EventReader;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = EventReader().push(bytes);
  // The first byte says how many come at a time.
  const std::size_t piece = 1 + data[0] % 32;
  EventReader reader;
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    for (const auto& event : reader.push(bytes.substr(at, piece))) {
      if (count >= whole.size() || event != whole[count]) std::abort();
      if (event.data.find('\r') != std::string::npos || event.type.find_first_of("\r\n") != std::string::npos) std::abort();
      ++count;
    }
  if (count != whole.size()) std::abort();
  return 0;
}
