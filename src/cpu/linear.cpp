#include "cpu/kernels.hpp"
#include "cpu/product.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

// Calls work(lines, first row) for runs of rows.
template <class Work>
void for_each_run(int rows, In x, Out out, Work work) {
  for (int first = 0; first < rows; first += kMaxLines) {
    Lines lines;
    for (int r = first; r < std::min(rows, first + kMaxLines); ++r) lines.add(x[r], out[r]);
    work(lines, first);
  }
}

}  // namespace

void linear(const FloatProducts& products, int rows, In x, std::span<const link::Matrix* const> weights, Out out, Part part) {
  int total = 0;
  for (const link::Matrix* w : weights) total += w->rows;
  for_each_share(total, part, kPanel, [&](Range mine) {
    int offset = 0;  // of a weight's first output
    for (const link::Matrix* w : weights) {
      const Range range = overlap(mine, offset, w->rows);
      for_each_run(rows, x, {out.data + offset, out.stride}, [&](const Lines& lines, int) { multiply(products, lines, *w, 0, range); });
      offset += w->rows;
    }
  });
}

void linear_gelu_mul(const FloatProducts& products, int rows, In x, const link::Matrix& gate, const link::Matrix& up, Out out, Part part) {
  for_each_share(gate.rows, part, kPanel, [&](Range range) {
    for_each_run(rows, x, out, [&](const Lines& lines, int) { multiply_gelu_mul(products, lines, gate, up, 0, range); });
  });
}

void linear_silu_mul(const FloatProducts& products, int rows, In x, const link::Matrix& gate, const link::Matrix& up, Out out, Part part) {
  for_each_share(gate.rows, part, kPanel, [&](Range range) {
    for_each_run(rows, x, out, [&](const Lines& lines, int) {
      multiply(products, lines, up, 0, range);  // the up products wait in the output for their gates
      for_each_product(products, lines, gate, 0, range, [&](int line, int n, int count, const float* y) {
        float* to = lines.out[line] + n;
        for (int j = 0; j < count; ++j) to[j] = numeric::silu(y[j]) * to[j];
      });
    });
  });
}

void linear_gelu_gate(const FloatProducts& products, int rows, In x, const link::Matrix& weight, In factor, Out out, Part part) {
  for_each_share(weight.rows, part, kPanel, [&](Range range) {
    for_each_run(rows, x, out, [&](const Lines& lines, int first) {
      for_each_product(products, lines, weight, 0, range, [&](int line, int n, int count, const float* y) {
        const float* f = factor[first + line] + n;
        float* to = lines.out[line] + n;
        for (int j = 0; j < count; ++j) to[j] = numeric::gelu(y[j]) * f[j];
      });
    });
  });
}

void linear_softcap(const FloatProducts& products, int rows, In x, const link::Matrix& weight, float cap, Out out, Part part) {
  for_each_share(weight.rows, part, kPanel, [&](Range range) {
    for_each_run(rows, x, out, [&](const Lines& lines, int) {
      if (cap == 0.0f) return multiply(products, lines, weight, 0, range);
      for_each_product(products, lines, weight, 0, range, [&](int line, int n, int count, const float* y) {
        float* to = lines.out[line] + n;
        for (int j = 0; j < count; ++j) to[j] = cap * numeric::tanh(y[j] / cap);
      });
    });
  });
}

}  // namespace lapidary::cpu
