// Arrays one after the other in a block of bytes, each behind a line with its length: written once, then used where they are mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "checkpoint/error.hpp"

namespace lapidary {

inline constexpr std::size_t kFlatLine = 64;  // bytes; arrays begin on one

class FlatWriter {
 public:
  template <class T>
  void put(std::span<const T> items) {
    static_assert(std::is_trivially_copyable_v<T> && (std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>),
                  "bytes between fields would be those of chance");
    const std::uint64_t count = items.size();
    bytes_.append(reinterpret_cast<const char*>(&count), sizeof count);
    fill_line();
    bytes_.append(reinterpret_cast<const char*>(items.data()), items.size_bytes());
    fill_line();
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void fill_line() { bytes_.resize((bytes_.size() + kFlatLine - 1) / kFlatLine * kFlatLine); }

  std::string bytes_;
};

// Takes the arrays in the order in which they were put. `block` must begin on a line and outlive them.
class FlatReader {
 public:
  FlatReader(std::span<const std::byte> block, std::string where) : left_(block), where_(std::move(where)) {}

  template <class T>
  void take(std::span<const T>& items) {
    std::uint64_t count = 0;
    std::memcpy(&count, cut(sizeof count).data(), sizeof count);
    if (count > left_.size() / sizeof(T)) refuse();
    const std::size_t size_bytes = static_cast<std::size_t>(count) * sizeof(T);
    items = {reinterpret_cast<const T*>(cut(size_bytes).data()), static_cast<std::size_t>(count)};
  }

 private:
  // A beginning of what is left, with the rest of its last line.
  std::span<const std::byte> cut(std::size_t size_bytes) {
    const std::size_t lines_bytes = (size_bytes + kFlatLine - 1) / kFlatLine * kFlatLine;
    if (lines_bytes > left_.size()) refuse();
    const auto taken = left_.first(size_bytes);
    left_ = left_.subspan(lines_bytes);
    return taken;
  }
  [[noreturn]] void refuse() const { fail(ErrorKind::truncated, where_, "tables, expected all of them, got less"); }

  std::span<const std::byte> left_;
  std::string where_;
};

}  // namespace lapidary
