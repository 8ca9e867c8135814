// One step over rows of its own, of which a run takes some, and the three questions asked of it: is it near its definition,
// are the bits of a row the same whatever rows share the run, and does a replay give what direct encoding gives?
#pragma once

#include <functional>

#include "metal/check/random.hpp"
#include "metal/check/workbench.hpp"

namespace lapidary::metal::check {

using Words = std::vector<std::uint32_t>;  // elements of 4 bytes, numbers or ids

template <class T>
std::vector<Words> words_of(const std::vector<std::vector<T>>& rows) {
  static_assert(sizeof(T) == 4);
  std::vector<Words> all;
  for (const std::vector<T>& row : rows) {
    all.emplace_back(row.size());
    std::memcpy(all.back().data(), row.data(), row.size() * 4);
  }
  return all;
}

// What the definition says about the elements of a row, and how far off they may be.
struct Expected {
  std::vector<double> values, allowed;
  std::vector<bool> is_id;

  // Numbers that are off by a share of the largest of them at most.
  void numbers(const std::vector<double>& all, double share);
  // Numbers that are off by a share of themselves.
  void each(const std::vector<double>& all, double share);
  void ids(const std::vector<std::int32_t>& all);
};

struct Finding {
  double error = 0;     // the largest; 1 is what is allowed
  double device_s = 0;  // one row
  std::string problem;  // empty: none
};

class Trial {
 public:
  Trial(Workbench& bench, graph::Op op, const graph::Dims& dims, int rows, NumericClass numeric = NumericClass::round);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  std::vector<graph::Row> table;        // what the rows are: tokens from 0 on, unless something else is said
  bool place_matters = false;           // what a row gives depends on its place in the run
  layout::Step params{};
  layout::Run run{};
  BoundStep bound{};
  std::function<std::vector<Dispatch>(const BoundStep&)> dispatches = dispatches_of;

  template <class T>
  void in(int i, const std::vector<std::vector<T>>& rows) {
    in_[static_cast<std::size_t>(i)] = words_of(rows);
  }
  // An input of which a run has all rows, whichever of the results it makes.
  void whole(int i, const std::vector<std::vector<float>>& rows) { whole_[static_cast<std::size_t>(i)] = words_of(rows); }
  void out(int i, int width, bool is_result = true);
  void stream(const std::vector<std::vector<float>>& rows);  // the first input, which is the first output too
  void matrix(int i, const RandomMatrix& matrix);
  template <class T>
  void vector(int i, const std::vector<T>& values) {
    bound.vectors[static_cast<std::size_t>(i)] = bench_.hold(values);
    step_.weights[static_cast<std::size_t>(i)] = static_cast<graph::WeightId>(i);
    params.weights |= 1 << i;
  }
  // K and V of one session, [kv head][capacity][head_dim]
  void kv(const std::vector<float>& keys, const std::vector<float>& values, int capacity, bool bf16);

  // expected(r): all elements of the outputs of row r, one output after the other; then K and V where the step writes them.
  Finding examine(const std::function<Expected(int row)>& expected);

 private:
  struct Played {
    std::vector<Words> rows;
    double device_s = 0;
  };
  Played play(const std::vector<int>& numbers, bool replayed);
  Slice hold_rows(const std::vector<Words>& all, const std::vector<int>& numbers, layout::Operand& operand);
  void append_kv(const Slice& slice, const graph::Row& row, Words& to) const;
  std::vector<int> some_rows(int count) const;

  struct Output {
    int width = 0;
    bool is_result = false;
  };

  Workbench& bench_;
  const graph::Dims dims_;
  graph::Step step_{};
  int matrix_count_ = 0;
  bool in_place_ = false;
  std::array<std::vector<Words>, 4> in_{}, whole_{};
  std::array<Output, 4> out_{};
  std::vector<link::Matrix> matrices_;
  std::vector<std::byte> keys_, values_;  // as they are before a run
};

}  // namespace lapidary::metal::check
