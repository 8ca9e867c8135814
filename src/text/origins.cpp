#include "text/origins.hpp"

#include <algorithm>
#include <cassert>

namespace lapidary::text {

void Origins::add(Origin origin) {
  if (origin.bytes == 0) return;
  origins_.push_back(origin);
  bytes_ += origin.bytes;
}

void Origins::add(std::span<const Origin> origins) {
  for (const Origin& origin : origins) add(origin);
}

std::vector<Origin> Origins::take(std::size_t bytes) {
  assert(bytes <= bytes_);
  bytes_ -= bytes;
  std::vector<Origin> taken;
  auto next = origins_.begin();
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, next->bytes);
    taken.push_back({next->number, part});
    bytes -= part;
    next->bytes -= part;
    if (next->bytes == 0) ++next;
  }
  origins_.erase(origins_.begin(), next);
  return taken;
}

std::vector<Origin> Origins::pass(std::size_t passed, std::size_t held) {
  assert(passed + held <= bytes_);
  take(bytes_ - passed - held);
  return take(passed);
}

}  // namespace lapidary::text
