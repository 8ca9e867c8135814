#include <algorithm>
#include <array>
#include <cassert>
#include <compare>

#include "cpu/kernels.hpp"
#include "cpu/product.hpp"

namespace lapidary::cpu {
namespace {

// One row's use of one expert.
struct Pick {
  std::int32_t expert, row, slot;
  auto operator<=>(const Pick&) const = default;
};

inline constexpr int kMaxPicks = 2048;  // 24 KiB of stack

// Calls work(expert, lines) so that the rows that picked an expert meet its weights together. x_of(row, slot) and
// out_of(row, slot) are where a pick reads and writes.
template <class XOf, class OutOf, class Work>
void for_each_expert(int rows, InIds ids, int used, [[maybe_unused]] int experts, XOf x_of, OutOf out_of, Work work) {
  assert(used > 0 && used <= kMaxPicks);
  const int rows_at_once = kMaxPicks / used;
  for (int first = 0; first < rows; first += rows_at_once) {
    std::array<Pick, kMaxPicks> picks;
    std::size_t count = 0;
    for (int row = first; row < std::min(rows, first + rows_at_once); ++row) {
      for (int slot = 0; slot < used; ++slot) {
        const std::int32_t expert = ids[row][slot];
        assert(expert >= 0 && expert < experts);
        picks[count++] = {expert, row, slot};
      }
    }
    std::sort(picks.begin(), picks.begin() + count);
    for (std::size_t i = 0; i < count;) {
      const std::int32_t expert = picks[i].expert;
      Lines lines;
      for (; i < count && picks[i].expert == expert && lines.count < kMaxLines; ++i) {
        lines.add(x_of(picks[i].row, picks[i].slot), out_of(picks[i].row, picks[i].slot));
      }
      work(expert, lines);
    }
  }
}

}  // namespace

void expert_gelu_mul(int rows, In x, InIds ids, int used, const link::Matrix& gate, const link::Matrix& up, Out out,
                     Part part) {
  const Range range = share(gate.rows, part, kGrain);
  for_each_expert(
      rows, ids, used, gate.experts, [&](int row, int) { return x[row]; },
      [&](int row, int slot) { return out[row] + slot * gate.rows; },
      [&](int expert, const Lines& lines) { multiply_gelu_mul(lines, gate, up, expert, range); });
}

void expert_linear(int rows, In x, InIds ids, int used, const link::Matrix& weight, Out out, Part part) {
  const Range range = share(weight.rows, part, kGrain);
  for_each_expert(
      rows, ids, used, weight.experts,
      [&](int row, int slot) { return x[row] + slot * weight.cols; },
      [&](int row, int slot) { return out[row] + slot * weight.rows; },
      [&](int expert, const Lines& lines) { multiply(lines, weight, expert, range); });
}

}  // namespace lapidary::cpu
