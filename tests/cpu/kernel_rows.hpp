// What the kernel tests share: rows as a kernel sees them, and the two questions asked of every kernel. Is it near its
// definition, and does a row come out the same, bit for bit, whatever rows and threads share the call?
#pragma once

#include <algorithm>
#include <bit>
#include <boost/ut.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "cpu/kernels.hpp"
#include "support/random.hpp"

namespace lapidary::test {

using FloatRows = std::vector<std::vector<float>>;  // [rows][width]

inline constexpr float kEpsilon = 1e-6f;
inline const float kUntouched = std::bit_cast<float>(0x7fc0dead);  // a NaN no arithmetic makes

inline bool is_untouched(float x) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(kUntouched); }

// The same numbers to the bit; what is not a number is never the same.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0 &&
         std::none_of(a.begin(), a.end(), [](float x) { return std::isnan(x); });
}

inline std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

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

inline FloatRows random_rows(Random& random, int rows, int width, double low = -2.0, double high = 2.0) {
  FloatRows all;
  for (int r = 0; r < rows; ++r) all.push_back(random.floats(width, low, high));
  return all;
}

template <class Row>
std::vector<Row> gather(const std::vector<Row>& rows, const std::vector<int>& numbers) {
  std::vector<Row> some;
  for (const int number : numbers) some.push_back(rows[number]);
  return some;
}

// Calls a kernel once per part, the last first: no part may rely on an earlier one.
template <class Kernel>
void in_parts(int parts, Kernel&& kernel) {
  for (int index = parts - 1; index >= 0; --index) kernel(cpu::Part{index, parts});
}

// Computes the rows with these numbers in one call, split into so many parts.
using Compute = std::function<FloatRows(const std::vector<int>& numbers, int parts)>;

// Every row, at every width from 1 to 8 and a few large ones, at a random place among random others, by 1 to 3 parts,
// equals the row computed alone.
inline void expect_rows_independent(Random& random, int row_count, const Compute& compute) {
  FloatRows alone;
  for (int r = 0; r < row_count; ++r) alone.push_back(compute({r}, 1).front());
  for (const int width : {1, 2, 3, 4, 5, 6, 7, 8, 17, 64, 67, 131, 259}) {
    if (width > row_count) break;
    for (const int parts : {1, 2, 3}) {
      const std::vector<int> numbers = random.pick(width, row_count);
      const FloatRows together = compute(numbers, parts);
      int different = 0;
      for (int r = 0; r < width; ++r) different += !same_bits(together[r], alone[numbers[r]]);
      boost::ut::expect(boost::ut::eq(different, 0)) << "rows differ at width" << width << "with" << parts << "parts";
    }
  }
}

// Largest error of `got` in units of what `allowed` permits at each place; NaN counts as infinite. Near means <= 1.
inline double worst_error(const std::vector<float>& got, const std::vector<double>& expected,
                          const std::vector<double>& allowed) {
  if (got.size() != expected.size()) return INFINITY;
  double worst = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    const double ratio = error == 0.0 ? 0.0 : error / allowed[i];
    worst = std::isnan(ratio) ? INFINITY : std::max(worst, ratio);
  }
  return worst;
}

}  // namespace lapidary::test
