// What the kernel tests of all backends share: rows of numbers, and the two questions asked of every kernel. Is it near its
// definition, and does a row come out the same, bit for bit, whatever rows and threads share the call?
#pragma once

#include <algorithm>
#include <bit>
#include <boost/ut.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "graph/row.hpp"
#include "support/random.hpp"

namespace lapidary::test {

using FloatRows = std::vector<std::vector<float>>;  // [rows][width]
using Ids = std::vector<std::int32_t>;
using IdRows = std::vector<Ids>;

inline constexpr float kEpsilon = 1e-6f;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline const float kUntouched = std::bit_cast<float>(0x7fc0dead);  // a NaN no arithmetic makes

inline bool is_untouched(float x) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(kUntouched); }

// The same numbers to the bit; what is not a number is never the same.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0 &&
         std::none_of(a.begin(), a.end(), [](float x) { return std::isnan(x); });
}

inline std::vector<double> doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

template <class Row>
int count_of(const std::vector<Row>& rows) {
  return static_cast<int>(rows.size());
}

inline FloatRows random_rows(Random& random, int rows, int width, double low = -2.0, double high = 2.0) {
  FloatRows all;
  for (int r = 0; r < rows; ++r) all.push_back(random.floats(width, low, high));
  return all;
}

// Different numbers below `limit`, in random order.
inline Ids random_ids(Random& random, int count, int limit) {
  const auto picked = random.pick(count, limit);
  return {picked.begin(), picked.end()};
}

template <class Row>
std::vector<Row> gather(const std::vector<Row>& rows, const std::vector<int>& numbers) {
  std::vector<Row> some;
  for (const int number : numbers) some.push_back(rows[number]);
  return some;
}

// Puts the values behind those of each row; ids become numbers, which they are exactly.
template <class T>
void append_rows(FloatRows& rows, const std::vector<std::vector<T>>& more) {
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r].insert(rows[r].end(), more[r].begin(), more[r].end());
}

inline graph::Row row_at(int position, int block_end, int slot) {
  return {.slot = slot, .position = position, .token = 9, .block_end = block_end};
}
inline graph::Row row_at(int position, int slot = 0) { return row_at(position, position, slot); }

struct Heads {
  int heads = 0, kv_heads = 0, head_dim = 0;
};

// Computes the rows with these numbers in one call, by so many parts where the backend lets its caller split the work.
using Compute = std::function<FloatRows(const std::vector<int>& numbers, int parts)>;

// In what company a row is computed: calls of these widths with some of so many rows, by so many parts.
struct Company {
  int rows = 0;
  std::vector<int> widths, parts = {1};
};

// Every width from 1 to 8 and a few large ones, by 1 to 3 parts.
inline Company all_company(int rows) {
  Company company{rows, {}, {1, 2, 3}};
  for (const int width : {1, 2, 3, 4, 5, 6, 7, 8, 17, 64, 67, 131, 259})
    if (width <= rows) company.widths.push_back(width);
  return company;
}

inline const std::vector<int> kRoundWidths = {8, 7, 6, 5, 4, 3, 2, 1};

// At a random place among random others, every row is as `expected` has it.
inline void expect_rows_as(Random& random, const FloatRows& expected, const Company& company, const Compute& compute) {
  for (const int width : company.widths)
    for (const int parts : company.parts) {
      const std::vector<int> numbers = random.pick(width, company.rows);
      const FloatRows together = compute(numbers, parts);
      int different = 0;
      for (int r = 0; r < width; ++r) different += !same_bits(together[r], expected[numbers[r]]);
      boost::ut::expect(boost::ut::eq(different, 0)) << "rows differ at width" << width << "with" << parts << "parts";
    }
}

// Every row equals the row computed alone.
inline void expect_rows_alone(Random& random, const Company& company, const Compute& compute) {
  FloatRows alone;
  for (int r = 0; r < company.rows; ++r) alone.push_back(compute({r}, 1).front());
  expect_rows_as(random, alone, company, compute);
}

inline void expect_rows_independent(Random& random, int rows, const Compute& compute) {
  expect_rows_alone(random, all_company(rows), compute);
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
