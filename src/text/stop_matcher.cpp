#include "text/stop_matcher.hpp"

#include <algorithm>
#include <utility>

namespace lapidary::text {
namespace {

// Length of the longest end of `text` that begins `stop`.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length)
    if (text.ends_with(stop.substr(0, length))) return length;
  return 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

std::string StopMatcher::push(std::string_view text) {
  if (matched()) return {};
  held_ += text;
  std::size_t cut = std::string::npos, keep = 0;
  for (const std::string& stop : stops_) {
    if (const std::size_t at = held_.find(stop); at < cut) {
      cut = at;
      match_ = stop;
    }
    keep = std::max(keep, overlap(held_, stop));
  }
  if (matched()) {
    held_.resize(cut);
    return std::exchange(held_, {});
  }
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace lapidary::text
