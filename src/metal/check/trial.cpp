#include "metal/check/trial.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "checkpoint/error.hpp"
#include "numeric/bf16.hpp"

namespace lapidary::metal::check {
namespace {

constexpr std::uint32_t kUntouched = 0x7fc0dead;  // a NaN no arithmetic makes

double value_of(std::uint32_t word, bool is_id) {
  return is_id ? static_cast<double>(static_cast<std::int32_t>(word)) : static_cast<double>(std::bit_cast<float>(word));
}

// In units of what is allowed; what is not a number is infinitely wrong.
double error_of(const Words& got, const Expected& expected) {
  if (got.size() != expected.values.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(value_of(got[i], expected.is_id[i]) - expected.values[i]);
    const double share = error == 0 ? 0 : error / expected.allowed[i];
    worst = std::isnan(share) ? INFINITY : std::max(worst, share);
  }
  return worst;
}

}  // namespace

void Expected::numbers(const std::vector<double>& all, double share) {
  double largest = 0;
  for (const double value : all) largest = std::max(largest, std::abs(value));
  values.insert(values.end(), all.begin(), all.end());
  allowed.resize(values.size(), share * largest);
  is_id.resize(values.size(), false);
}

void Expected::each(const std::vector<double>& all, double share) {
  for (const double value : all) numbers({value}, share);
}

void Expected::ids(const std::vector<std::int32_t>& all) {
  values.insert(values.end(), all.begin(), all.end());
  allowed.resize(values.size(), 0.0);
  is_id.resize(values.size(), true);
}

Trial::Trial(Workbench& bench, graph::Op op, const graph::Dims& dims, int rows, NumericClass numeric) : bench_(bench), dims_(dims) {
  for (int r = 0; r < rows; ++r) table.push_back({.slot = 0, .position = r, .token = r, .block_end = r});
  step_.op = op;
  step_.dims = &dims_;
  bound.step = &step_;
  bound.numeric = numeric;
  params = params_of(step_);
  matrices_.reserve(std::size(params.matrix));
}

void Trial::out(int i, int width, bool is_result) { out_[static_cast<std::size_t>(i)] = {width, is_result}; }

void Trial::stream(const std::vector<std::vector<float>>& rows) {
  in(0, rows);
  out(0, static_cast<int>(rows.front().size()));
  in_place_ = true;
}

void Trial::matrix(int i, const RandomMatrix& random) {
  const link::Matrix& matrix = matrices_.emplace_back(random.view());
  const std::size_t rows = static_cast<std::size_t>(std::max(1, matrix.experts) * matrix.rows);
  BoundMatrix& to = bound.matrices[static_cast<std::size_t>(i)];
  to.matrix = &matrix;
  to.values = bench_.hold(matrix.values, rows * matrix.row_bytes);
  if (matrix.scales) to.scales = bench_.hold(matrix.scales, rows * matrix.scale_row_bytes);
  if (matrix.biases) to.biases = bench_.hold(matrix.biases, rows * matrix.scale_row_bytes);
  step_.weights[static_cast<std::size_t>(i)] = static_cast<graph::WeightId>(i);
  params.weights |= 1 << i;
  params.matrix[matrix_count_++] = layout_of(matrix);
}

void Trial::kv(const std::vector<float>& keys, const std::vector<float>& values, int capacity, bool bf16) {
  params.kv_capacity = capacity;
  const link::KvCode code = bf16 ? link::KvCode::bf16 : link::KvCode::f32;
  const std::size_t bytes = link::kv_bytes(code, 1);
  params.kv_slot_bytes = keys.size() * bytes;
  bound.kv_stores = {.key_code = code, .value_code = code, .keys = params.head_dim, .values = params.head_dim};
  for (const auto& [from, to] : {std::pair{&keys, &keys_}, std::pair{&values, &values_}}) {
    to->resize(from->size() * bytes);
    for (std::size_t i = 0; i < from->size(); ++i) {
      const std::uint32_t word = bf16 ? numeric::to_bf16((*from)[i]) : std::bit_cast<std::uint32_t>((*from)[i]);
      std::memcpy(to->data() + i * bytes, &word, bytes);
    }
  }
}

Slice Trial::hold_rows(const std::vector<Words>& all, const std::vector<int>& numbers, layout::Operand& operand) {
  const std::size_t width = all.front().size(), stride = width + 3;  // what lies between the rows is not theirs
  std::vector<std::uint32_t> flat(stride * numbers.size(), kUntouched);
  for (std::size_t r = 0; r < numbers.size(); ++r)
    std::ranges::copy(all[static_cast<std::size_t>(numbers[r])], flat.begin() + static_cast<std::ptrdiff_t>(r * stride));
  operand = {0, static_cast<std::uint32_t>(stride * 4), 0};
  return bench_.hold(flat);
}

void Trial::append_kv(const Slice& slice, const graph::Row& row, Words& to) const {
  const int head_dim = params.head_dim, capacity = params.kv_capacity;
  std::vector<float> widened(static_cast<std::size_t>(head_dim));
  for (int head = 0; head < params.kv_heads; ++head) {
    link::widen(bound.kv_stores.value_code, static_cast<const std::byte*>(buffer_of(slice)->contents()), head * capacity + row.position % capacity, widened);
    for (const float x : widened) to.push_back(std::bit_cast<std::uint32_t>(x));
  }
}

Trial::Played Trial::play(const std::vector<int>& numbers, bool replayed) {
  const int rows = static_cast<int>(numbers.size());
  std::vector<graph::Row> chosen;
  for (const int number : numbers) chosen.push_back(table[static_cast<std::size_t>(number)]);
  bound.row_table = bench_.hold(chosen);
  if (!keys_.empty()) bound.keys = bench_.hold(keys_);
  if (!values_.empty()) bound.values = bench_.hold(values_);
  for (std::size_t i = 0; i < in_.size(); ++i) {
    if (!in_[i].empty()) bound.in[i] = hold_rows(in_[i], numbers, params.in[i]);
    if (whole_[i].empty()) continue;
    std::vector<int> all(whole_[i].size());
    std::iota(all.begin(), all.end(), 0);
    bound.in[i] = hold_rows(whole_[i], all, params.in[i]);
  }
  for (std::size_t i = 0; i < out_.size(); ++i)
    if (out_[i].width) {
      const std::vector<Words> untouched(1, Words(static_cast<std::size_t>(out_[i].width), kUntouched));
      bound.out[i] = hold_rows(untouched, std::vector<int>(numbers.size(), 0), params.out[i]);
    }
  if (in_place_) {
    bound.out[0] = bound.in[0];
    params.out[0] = params.in[0];
  }
  run.row_count = run.output_count = bound.rows = rows;
  bound.params = bench_.hold(&params, sizeof params);
  bound.run = bench_.hold(&run, sizeof run);

  Played played;
  played.device_s = bench_.run(dispatches(bound), rows, replayed);
  played.rows.resize(numbers.size());
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (!out_[i].width) continue;
    const std::size_t stride = params.out[i].row_bytes / 4;
    const Words flat = bench_.read<std::uint32_t>(bound.out[i], stride * numbers.size());
    for (std::size_t r = 0; r < numbers.size(); ++r) {
      const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(r * stride), end = begin + out_[i].width;
      const auto next = begin + static_cast<std::ptrdiff_t>(stride);
      if (std::any_of(end, next, [](std::uint32_t word) { return word != kUntouched; }))
        fail(ErrorKind::not_exact, std::string(name_of(step_.op)), "expected nothing written between rows, got something");
      if (out_[i].is_result) played.rows[r].insert(played.rows[r].end(), begin, end);
    }
  }
  if (params.owns_kv)
    for (std::size_t r = 0; r < numbers.size(); ++r)
      for (const Slice& slice : {bound.keys, bound.values}) append_kv(slice, chosen[r], played.rows[r]);
  return played;
}

// So many rows, others for every number of them and in another order.
std::vector<int> Trial::some_rows(int count) const {
  const int all = static_cast<int>(table.size());
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  if (place_matters) return numbers;
  for (int& number : numbers) number = all - 1 - (number + count) % all;
  return numbers;
}

Finding Trial::examine(const std::function<Expected(int row)>& expected) {
  const int all = static_cast<int>(table.size());
  std::vector<int> everything(static_cast<std::size_t>(all));
  std::iota(everything.begin(), everything.end(), 0);
  Finding finding;
  const std::vector<Words> together = play(everything, false).rows;
  for (const int r : everything)
    finding.error = std::max(finding.error, error_of(together[static_cast<std::size_t>(r)], expected(r)));
  if (finding.error > 1) finding.problem = "far from its definition";

  for (int count = 1; count <= std::min(all, graph::kMaxVerifyRows) && finding.problem.empty(); ++count) {
    const std::vector<int> numbers = some_rows(count);
    const Played played = play(numbers, false);
    if (count == 1) finding.device_s = played.device_s;
    for (std::size_t r = 0; r < numbers.size(); ++r)
      if (played.rows[r] != together[static_cast<std::size_t>(numbers[r])])
        finding.problem = "a row has other bits in a run of " + std::to_string(count) + " rows";
  }
  if (finding.problem.empty() && play(everything, true).rows != together) finding.problem = "a replay gives other bits";
  return finding;
}

}  // namespace lapidary::metal::check
