#include "cpu/memory.hpp"

#include <cstring>
#include <string>

#include <sys/mman.h>

#include "checkpoint/error.hpp"

namespace lapidary::cpu {

Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    fail(ErrorKind::out_of_memory, "memory", "the system refused, expected " + std::to_string(bytes) + " bytes");
  data_ = static_cast<std::byte*>(at);
}

Memory::~Memory() {
  if (data_) munmap(data_, bytes_);
}

void Memory::use_huge_pages() {
#if defined(MADV_HUGEPAGE)
  if (bytes_) madvise(data_, bytes_, MADV_HUGEPAGE);  // a wish: what comes of it does not matter
#endif
}

void Memory::commit() { std::memset(data_, 0, bytes_); }

}  // namespace lapidary::cpu
