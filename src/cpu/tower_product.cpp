#include "cpu/tower_product.hpp"

#include <algorithm>
#include <utility>

#include "cpu/product.hpp"

namespace lapidary::cpu {
namespace {

// Rows that meet a piece of a weight, within the bounds of its clip. room: [kMaxLines, cols]
Lines clipped_lines(Range rows, In x, const link::Matrix& w, float* room) {
  Lines lines;
  const link::Clip clip = w.clip;
  for (int r = rows.begin; r < rows.end; ++r) {
    const float* from = x[r];
    if (clip != link::Clip{}) {
      float* const clamped = room + static_cast<std::size_t>(r - rows.begin) * w.cols;
      LAPIDARY_SIDE_BY_SIDE
      for (int i = 0; i < w.cols; ++i) clamped[i] = std::min(std::max(from[i], clip.input_min), clip.input_max);
      from = clamped;
    }
    lines.add(from, nullptr);
  }
  return lines;
}

}  // namespace

void multiply_f32(const FloatProducts& products, int rows, In x, const TowerProduct& product, Out out, float* room, Part part) {
  constexpr int kPiece = 16 * kPanel;  // weight rows
  const link::Matrix& w = *product.weight;
  const int pieces = (w.rows + kPiece - 1) / kPiece;
  Lines lines;
  int first = -1;  // of the rows that these are
  for_each_own((rows + kMaxLines - 1) / kMaxLines * pieces, part, [&](int unit) {
    const int begin = unit / pieces * kMaxLines, piece = unit % pieces * kPiece;
    if (std::exchange(first, begin) != begin) lines = clipped_lines({begin, std::min(rows, begin + kMaxLines)}, x, w, room);
    for_each_product(products, lines, w, 0, {piece, std::min(w.rows, piece + kPiece)}, [&](int line, int n, int count, const float* y) {
      finish_products(product, n, count, y, out[begin + line] + n);
    });
  });
}

}  // namespace lapidary::cpu
