// Anonymous memory straight from the system: address space now, pages when they are touched.
#pragma once

#include <cstddef>

namespace lapidary::cpu {

class Memory {
 public:
  explicit Memory(std::size_t bytes);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::byte* data() const { return data_; }
  void use_huge_pages();  // where the system has them
  void commit();          // touches every page

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lapidary::cpu
