// The device under examination: memory for one check, and dispatches run alone.
#pragma once

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "metal/gpu.hpp"

namespace lapidary::metal::check {

class Workbench {
 public:
  explicit Workbench(Gpu& gpu) : gpu_(gpu) {}

  // Memory with these bytes, until the bench is cleared.
  Slice hold(const void* data, std::size_t bytes);
  template <class T>
  Slice hold(const std::vector<T>& values) {
    return hold(values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> read(const Slice& slice, std::size_t count) const {
    std::vector<T> values(count);
    const auto* data = static_cast<const std::byte*>(buffer_of(slice)->contents()) + slice.offset_bytes;
    std::memcpy(values.data(), data, count * sizeof(T));
    return values;
  }
  void clear() { held_.clear(); }

  // Runs the dispatches one after the other, encoded directly or replayed from an indirect command buffer. Returns seconds
  // on the device; fails with what the device says.
  double run(std::vector<Dispatch> dispatches, int rows, bool replayed);

  const std::set<std::string>& kernels() const { return kernels_; }  // that have run

 private:
  Gpu& gpu_;
  std::vector<Owned<MTL::Buffer>> held_;
  std::set<std::string> kernels_;
};

}  // namespace lapidary::metal::check
