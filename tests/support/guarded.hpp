// A copy of bytes that ends where no byte may be read. Assembly is unknown to the address sanitizer, this it cannot pass.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>

namespace lapidary::test {

class Guarded {
 public:
  // `spare` bytes may be read behind the copy: it begins at an odd address where they are odd.
  explicit Guarded(std::span<const std::byte> bytes, std::size_t spare = 0) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t room = (bytes.size() + spare + page - 1) / page * page;
    size_ = room + page;
    void* const mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    start_ = static_cast<std::byte*>(mapped);
    data_ = start_ + room - spare - bytes.size();
    std::ranges::copy(bytes, data_);
    if (mprotect(start_ + room, page, PROT_NONE) != 0) throw std::bad_alloc();
  }
  ~Guarded() { munmap(start_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  const std::byte* data() const { return data_; }

 private:
  std::byte* start_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lapidary::test
