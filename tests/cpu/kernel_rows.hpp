// Rows as a kernel of the CPU sees them.
#pragma once

#include "cpu/kernels.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

// Rows at a stride that is no multiple of any vector, with NaN between them and nothing after the last.
template <class T>
class Buffer {
 public:
  Buffer(int rows, int width)
      : rows_(rows), width_(width), stride_(width + 3), data_(stride_ * (rows - 1) + width, gap()) {}
  explicit Buffer(const std::vector<std::vector<T>>& rows)
      : Buffer(static_cast<int>(rows.size()), static_cast<int>(rows.front().size())) {
    for (int r = 0; r < rows_; ++r) std::copy(rows[r].begin(), rows[r].end(), data_.begin() + r * stride_);
  }

  cpu::RowsOf<const T> in() const { return {data_.data(), stride_}; }
  cpu::RowsOf<T> out() { return {data_.data(), stride_}; }

  // What a kernel wrote. It must have left the gaps alone.
  std::vector<std::vector<T>> rows() const {
    std::vector<std::vector<T>> all;
    bool gaps_untouched = true;
    const T expected = gap();
    for (int r = 0; r < rows_; ++r) {
      const T* row = data_.data() + r * stride_;
      all.emplace_back(row, row + width_);
      for (const T* at = row + width_; r + 1 < rows_ && at < row + stride_; ++at)
        gaps_untouched = gaps_untouched && std::memcmp(at, &expected, sizeof(T)) == 0;
    }
    boost::ut::expect(gaps_untouched) << "a kernel wrote outside of its rows";
    return all;
  }

 private:
  static T gap() {
    if constexpr (std::is_same_v<T, float>) return kUntouched;
    return static_cast<T>(-77);
  }

  int rows_, width_;
  std::size_t stride_;
  std::vector<T> data_;
};
using RowBuffer = Buffer<float>;
using IdBuffer = Buffer<std::int32_t>;

// Calls a kernel once per part, the last first: no part may rely on an earlier one.
template <class Kernel>
void in_parts(int parts, Kernel&& kernel) {
  for (int index = parts - 1; index >= 0; --index) kernel(cpu::Part{index, parts});
}

}  // namespace lapidary::test
