// The ops of towers that see. A row is the work of one thread from end to end.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "cpu/norm.hpp"
#include "cpu/share.hpp"
#include "cpu/tower_kernels.hpp"
#include "numeric/dequant.hpp"

namespace lapidary::cpu {

void scale_shift(int rows, In x, int n, float scale, float shift, Out out, Part part) {
  for_each_own(rows, part, [&](int r) {
    for (int i = 0; i < n; ++i) out[r][i] = numeric::fused(x[r][i], scale, shift);
  });
}

void add_positions(int rows, int columns, const link::Matrix& table, bool axis_inside, Out h, Part part) {
  constexpr int kPiece = 256;
  const int positions = table.rows / 2, n = table.cols;
  const auto row_of = [&](int axis, int position) { return axis_inside ? position * 2 + axis : axis * positions + position; };
  for_each_own(rows, part, [&](int r) {
    const int by_column = row_of(0, r % columns), by_row = row_of(1, r / columns);
    float piece[2][kPiece];
    for (int begin = 0; begin < n; begin += kPiece) {
      const int count = std::min(kPiece, n - begin);
      numeric::dequantise(table.row(0, by_column), begin, count, piece[0]);
      numeric::dequantise(table.row(0, by_row), begin, count, piece[1]);
      for (int i = 0; i < count; ++i) h[r][begin + i] = (h[r][begin + i] + piece[0][i]) + piece[1][i];
    }
  });
}

void grid_angles(int rows, int columns, std::span<const float> frequencies, Out out, Part part) {
  const std::size_t quarter = frequencies.size();
  for_each_own(rows, part, [&](int r) {
    const float at[2] = {static_cast<float>(r % columns), static_cast<float>(r / columns)};
    for (std::size_t axis = 0; axis < 2; ++axis)
      for (std::size_t i = 0; i < quarter; ++i) {
        const float angle = at[axis] * frequencies[i];
        out[r][axis * quarter + i] = std::cos(angle);
        out[r][(2 + axis) * quarter + i] = std::sin(angle);
      }
  });
}

void qkv_grid_rope(int rows, In qkv, In angles, const float* q_norm, const float* k_norm, int heads, int head_dim, float epsilon, Out out,
                   Part part) {
  const int half = head_dim / 2, quarter = head_dim / 4;
  for_each_own(rows, part, [&](int r) {
    const float* angle = angles[r];
    for (int unit = 0; unit < 3 * heads; ++unit) {
      const float* x = qkv[r] + unit * head_dim;
      float* to = out[r] + unit * head_dim;
      const float factor = inverse_rms(x, head_dim, epsilon);
      if (unit >= 2 * heads) {
        for (int i = 0; i < head_dim; ++i) to[i] = x[i] * factor;
        continue;
      }
      const float* weight = unit < heads ? q_norm : k_norm;
      for (int axis = 0; axis < 2; ++axis)
        for (int i = 0; i < quarter; ++i) {
          const int first = axis * half + i, second = first + quarter;
          const float a = x[first] * factor * weight[first], b = x[second] * factor * weight[second];
          const float cosine = angle[axis * quarter + i], sine = angle[half + axis * quarter + i];
          to[first] = a * cosine - b * sine;
          to[second] = b * cosine + a * sine;
        }
    }
  });
}

void pool(int cells, int columns, int side, In x, const float* bias, const float* factor, int n, float scale, Out out, Part part) {
  const int cells_across = columns / side;
  const auto share_of_one = 1.0f / static_cast<float>(side * side);
  for_each_own(cells, part, [&](int cell) {
    const int first = cell / cells_across * side * columns + cell % cells_across * side;
    float* to = out[cell];
    std::fill_n(to, n, 0.0f);
    for (int i = 0; i < side * side; ++i) {
      const float* from = x[first + i / side * columns + i % side];
      for (int c = 0; c < n; ++c) to[c] += from[c];
    }
    for (int c = 0; c < n; ++c) to[c] = to[c] * share_of_one * scale;
    if (!bias) return;
    for (int c = 0; c < n; ++c) to[c] = (to[c] - bias[c]) * factor[c];
  });
}

void layer_norm(int rows, In x, const float* weight, const float* bias, int n, float epsilon, Out out, Part part) {
  for_each_own(rows, part, [&](int r) {
    const float* from = x[r];
    float* to = out[r];
    const float mean = mean_of(from, n);
    for (int i = 0; i < n; ++i) to[i] = from[i] - mean;
    const float factor = inverse_rms(to, n, epsilon);
    for (int i = 0; i < n; ++i) to[i] = to[i] * factor * weight[i] + bias[i];
  });
}

void add_norm(int rows, Out h, In y, const float* weight, int n, float epsilon, Out out, Part part) {
  for_each_own(rows, part, [&](int r) {
    float* residual = h[r];
    for (int i = 0; i < n; ++i) residual[i] += y[r][i];
    if (!weight) return;
    const float factor = inverse_rms(residual, n, epsilon);
    for (int i = 0; i < n; ++i) out[r][i] = residual[i] * factor * weight[i];
  });
}

}  // namespace lapidary::cpu
