#include "cpu/product.hpp"

#include "cpu/product_panel.hpp"
#include "numeric/dequant.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {

const FloatProducts kPortableFloatProducts = kFloatProducts<numeric::dequantise>;

void multiply(const FloatProducts& products, const Lines& lines, const link::Matrix& w, int expert, Range range) {
  for_each_product(products, lines, w, expert, range, [&](int line, int n, int count, const float* y) {
    std::copy_n(y, count, lines.out[line] + n);
  });
}

void multiply_gelu_mul(const FloatProducts& products, const Lines& lines, const link::Matrix& gate, const link::Matrix& up, int expert,
                       Range range) {
  // The up products wait in the output for their gates.
  multiply(products, lines, up, expert, range);
  for_each_product(products, lines, gate, expert, range, [&](int line, int n, int count, const float* y) {
    float* out = lines.out[line] + n;
    for (int j = 0; j < count; ++j) out[j] = numeric::gelu(y[j]) * out[j];
  });
}

}  // namespace lapidary::cpu
