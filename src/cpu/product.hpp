// Products of weight rows with activation rows: the core of the linear and expert kernels.
//
// A panel of weight rows is dequantised block by block along the input and applied to all activation rows while it is in the
// cache; a few activation rows meet bf16 and affine weights without one (product_bf16.hpp, product_affine.hpp). Each product is the
// sum of dot.hpp over the whole input, whatever the panel, block or tile.
#pragma once

#include <algorithm>
#include <array>

#include "cpu/share.hpp"
#include "link/weight.hpp"

namespace lapidary::cpu {

inline constexpr int kPanel = 16;  // weight rows of a panel
inline constexpr int kMaxLines = 128;

// Activation rows that meet the same weights. A line's product with weight row n goes to out + n.
struct Lines {
  int count = 0;
  std::array<const float*, kMaxLines> x;  // each [cols]
  std::array<float*, kMaxLines> out;      // each [rows of the weight]

  void add(const float* from, float* to) {
    x[count] = from;
    out[count] = to;
    ++count;
  }
};

// [line][weight row of the panel]
using Products = std::array<std::array<float, kPanel>, kMaxLines>;

// One implementation for each width of vectors. Which of them have an fma, and so round once, makes them numeric classes of their own.
struct FloatProducts {
  // y[l][j] = w[expert][first + j] . x[l] for j < count <= kPanel. Uses 100 KiB of stack.
  void (*multiply_panel)(const Lines& lines, const link::Matrix& w, int expert, int first, int count, Products& y);
  // w[row] . x, the same bits, where the rows that follow are not wanted: nothing is fetched ahead.
  float (*multiply_row)(const float* x, const link::Matrix& w, int row);
  // So often `register_products` products of numbers that are in registers: the limit of all others.
  float (*multiply_registers)(int times);
  double register_products;
};

extern const FloatProducts kPortableFloatProducts;
// Those of other families of processors are not in the program; instructions.hpp says which ones this processor can run.
extern const FloatProducts kAvx2FloatProducts;
extern const FloatProducts kAvx512FloatProducts;

// Calls finish(line, n, count, y) with runs of products: y[j] is that of weight row n + j, for j < count.
template <class Finish>
void for_each_product(const FloatProducts& products, const Lines& lines, const link::Matrix& w, int expert, Range range, Finish finish) {
  Products y;
  for (int first = range.begin; first < range.end; first += kPanel) {
    const int count = std::min(kPanel, range.end - first);
    products.multiply_panel(lines, w, expert, first, count, y);
    for (int l = 0; l < lines.count; ++l) finish(l, first, count, y[l].data());
  }
}

// out = w x
void multiply(const FloatProducts& products, const Lines& lines, const link::Matrix& w, int expert, Range range);

// out = gelu(gate x) * (up x)
void multiply_gelu_mul(const FloatProducts& products, const Lines& lines, const link::Matrix& gate, const link::Matrix& up, int expert,
                       Range range);

}  // namespace lapidary::cpu
