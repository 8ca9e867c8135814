// Server-sent events out of bytes that come in any pieces: what events.hpp writes, read back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lapidary::serve {

struct ServerEvent {
  std::string type, data;  // type: empty = none was named
  bool operator==(const ServerEvent&) const = default;
};

class EventReader {
 public:
  static constexpr std::size_t kMaxEventBytes = std::size_t{64} << 20;

  // The events that are whole with these bytes. Fails where one gets longer than the most.
  std::vector<ServerEvent> push(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<ServerEvent>& events);

  std::string line_;       // so far
  bool after_cr_ = false;  // of which a line feed may be the second half
  ServerEvent event_;      // so far; each line of data has its end
};

}  // namespace lapidary::serve
