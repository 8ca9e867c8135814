#include "cpu/tower_product.hpp"

#include "cpu/product.hpp"

namespace lapidary::cpu {

void multiply_f32(const FloatProducts& products, int rows, In x, const TowerProduct& product, Out out, float* room, Part part) {
  const link::Matrix& w = *product.weight;
  const bool clips = w.clip != link::Clip{};
  for_each_share(w.rows, part, kPanel, [&](Range range) {
    for (int first = 0; first < rows; first += kMaxLines) {
      Lines lines;
      for (int r = first; r < std::min(rows, first + kMaxLines); ++r) {
        const float* from = x[r];
        if (clips) {
          float* clamped = room + static_cast<std::size_t>(r - first) * w.cols;
          for (int i = 0; i < w.cols; ++i) clamped[i] = std::min(std::max(from[i], w.clip.input_min), w.clip.input_max);
          from = clamped;
        }
        lines.add(from, out[r]);
      }
      for_each_product(products, lines, w, 0, range, [&](int line, int n, int count, const float* y) {
        finish_products(product, n, count, y, lines.out[line] + n);
      });
    }
  });
}

}  // namespace lapidary::cpu
