#include "serve/event_reader.hpp"

#include <algorithm>
#include <utility>

#include "checkpoint/error.hpp"

namespace lapidary::serve {

std::vector<ServerEvent> EventReader::push(std::string_view bytes) {
  std::vector<ServerEvent> events;
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    line_ += bytes.substr(0, end);
    if (line_.size() + event_.type.size() + event_.data.size() > kMaxEventBytes)
      fail(ErrorKind::bad_value, "event", "bytes, expected at most " + std::to_string(kMaxEventBytes) + ", got more");
    if (end == bytes.size()) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    take_line(line_, events);
    line_.clear();
  }
  return events;
}

// A line without a colon is a field without a value; one that begins with a colon is a comment.
void EventReader::take_line(std::string_view line, std::vector<ServerEvent>& events) {
  if (line.empty()) {
    ServerEvent event = std::exchange(event_, {});
    if (event.data.empty()) return;
    event.data.pop_back();
    events.push_back(std::move(event));
    return;
  }
  const std::size_t colon = std::min(line.find(':'), line.size());
  const std::string_view name = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") event_.type = value;
  if (name == "data") event_.data.append(value).append("\n");
}

}  // namespace lapidary::serve
