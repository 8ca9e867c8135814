#include "cpu/expert_rows.hpp"
#include "cpu/kernels.hpp"
#include "cpu/product.hpp"

namespace lapidary::cpu {
namespace {

// Calls work(expert, lines, range of weight rows) so that the rows that picked an expert meet its weights together. x_of(pick) and
// out_of(pick) are where a pick reads and writes.
template <class XOf, class OutOf, class Work>
void for_each_expert(int rows, InIds ids, int used, const link::Matrix& weight, Part part, XOf x_of, OutOf out_of, Work work) {
  for_each_expert_share(rows, ids, used, weight.experts, kMaxLines, weight.rows, kPanel, part,
                        [&](std::span<const Pick> same, Range range) {
                          Lines lines;
                          for (const Pick& pick : same) lines.add(x_of(pick), out_of(pick));
                          work(same.front().expert, lines, range);
                        });
}

}  // namespace

void expert_gelu_mul(const FloatProducts& products, int rows, In x, InIds ids, int used, const link::Matrix& gate, const link::Matrix& up, Out out,
                     Part part) {
  for_each_expert(
      rows, ids, used, gate, part, [&](const Pick& pick) { return x[pick.row]; },
      [&](const Pick& pick) { return out[pick.row] + pick.slot * gate.rows; },
      [&](int expert, const Lines& lines, Range range) { multiply_gelu_mul(products, lines, gate, up, expert, range); });
}

void expert_linear(const FloatProducts& products, int rows, In x, InIds ids, int used, const link::Matrix& weight, Out out, Part part) {
  for_each_expert(
      rows, ids, used, weight, part,
      [&](const Pick& pick) { return x[pick.row] + pick.slot * weight.cols; },
      [&](const Pick& pick) { return out[pick.row] + pick.slot * weight.rows; },
      [&](int expert, const Lines& lines, Range range) { multiply(products, lines, weight, expert, range); });
}

}  // namespace lapidary::cpu
