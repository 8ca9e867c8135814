// Anonymous memory straight from the system: address space now, pages when they are touched.
#pragma once

#include <cstddef>
#include <span>

namespace lapidary::cpu {

class Pages {
 public:
  explicit Pages(std::size_t bytes);
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();

  std::byte* data() const { return data_; }
  void use_huge_pages();  // where the system has them
  void commit();          // touches every page
  std::span<const std::byte> bytes() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Keeps memory from being paged out until it is unmapped; throws where the system does not allow that much.
void lock(std::span<const std::byte> bytes);
// Reads something of every page.
void touch(std::span<const std::byte> bytes);

}  // namespace lapidary::cpu
