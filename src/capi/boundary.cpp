#include "capi/boundary.hpp"

namespace lapidary::capi {

lapidary_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return LAPIDARY_ERROR_USAGE;
    case ErrorKind::out_of_memory: return LAPIDARY_ERROR_MEMORY;
    case ErrorKind::io: return LAPIDARY_ERROR_IO;
    case ErrorKind::no_graph:
    case ErrorKind::unsupported: return LAPIDARY_ERROR_UNSUPPORTED;
    case ErrorKind::not_exact: return LAPIDARY_ERROR_INTERNAL;
    default: return LAPIDARY_ERROR_DATA;
  }
}

lapidary_status report(lapidary_error* error, lapidary_status status, std::string_view where, std::string_view what) noexcept {
  if (!error) return status;
  std::size_t size = 0;
  std::memcpy(&size, error, sizeof size);
  lapidary_error filled{};
  filled.size = size;
  filled.status = status;
  std::size_t used = 0;
  const auto add = [&](std::string_view text) { used += text.copy(filled.message + used, sizeof filled.message - 1 - used); };
  if (!where.empty()) {
    add("[");
    add(where);
    add("] ");
  }
  add(what);
  size = std::min(size, sizeof filled);
  std::memcpy(error, &filled, size);
  constexpr std::size_t kMessage = offsetof(lapidary_error, message);
  if (size > kMessage) reinterpret_cast<char*>(error)[size - 1] = '\0';
  return status;
}

}  // namespace lapidary::capi
