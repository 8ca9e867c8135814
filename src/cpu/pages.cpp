#include "cpu/pages.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "checkpoint/error.hpp"

namespace lapidary::cpu {

Pages::Pages(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    fail(ErrorKind::out_of_memory, "memory", "the system refused, expected " + std::to_string(bytes) + " bytes");
  data_ = static_cast<std::byte*>(at);
}

Pages::~Pages() {
  if (data_) munmap(data_, bytes_);
}

void Pages::use_huge_pages() {
#if defined(MADV_HUGEPAGE)
  if (bytes_) madvise(data_, bytes_, MADV_HUGEPAGE);  // a wish: what comes of it does not matter
#endif
}

// The system fills all pages in one go, where it knows how to: writing to each costs five times as much.
void Pages::commit() {
#if defined(MADV_POPULATE_WRITE)
  if (madvise(data_, bytes_, MADV_POPULATE_WRITE) == 0) return;
#endif
  std::memset(data_, 0, bytes_);
}

void lock(std::span<const std::byte> bytes) {
  if (bytes.empty() || mlock(bytes.data(), bytes.size()) == 0) return;
  const int reason = errno;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  fail(ErrorKind::out_of_memory, "lock memory", "expected " + std::to_string(bytes.size()) + " bytes more to be locked, got " +
                                                    std::strerror(reason) + "; the process may lock " +
                                                    (limit.rlim_cur == RLIM_INFINITY ? "any number" : std::to_string(limit.rlim_cur)) +
                                                    " (ulimit -l is in units of 1024)");
}

void touch(std::span<const std::byte> bytes) {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < bytes.size(); at += page_bytes) static_cast<void>(*static_cast<const volatile std::byte*>(&bytes[at]));
}

}  // namespace lapidary::cpu
