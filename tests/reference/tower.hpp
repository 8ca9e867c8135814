// The ops of towers: scale_shift, add_positions, grid_angles, qkv_grid_rope, attention_all, pool, layer_norm, linear_bias, linear_silu,
// conv_norm_relu, distance_waves, local_attention, glu_conv; products of clipped matrices.
#pragma once

#include <algorithm>
#include <cmath>

#include "link/weight.hpp"
#include "reference/attention.hpp"
#include "reference/linear.hpp"
#include "reference/norm.hpp"
#include "reference/rope.hpp"

namespace lapidary::reference {

inline double softplus(double x) { return std::log1p(std::exp(x)); }

// w: [n][k], x: [k]
inline Vector clipped_linear(const Table& w, const link::Clip& clip, Vector x) {
  for (double& value : x) value = std::clamp<double>(value, clip.input_min, clip.input_max);
  Vector y = linear(w, x);
  for (double& value : y) value = std::clamp<double>(value, clip.output_min, clip.output_max);
  return y;
}

// weight, bias: [n]; bias may be empty
inline Vector layer_norm(const Vector& x, const Vector& weight, const Vector& bias, double epsilon) {
  double mean = 0.0, variance = 0.0;
  for (const double value : x) mean += value / static_cast<double>(x.size());
  for (const double value : x) variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
  Vector y;
  for (std::size_t i = 0; i < x.size(); ++i)
    y.push_back((x[i] - mean) / std::sqrt(variance + epsilon) * weight[i] + (bias.empty() ? 0.0 : bias[i]));
  return y;
}

// table: [2 * positions][n]
inline Vector add_positions(Vector h, const Table& table, int x, int y, bool axis_inside) {
  const std::size_t positions = table.size() / 2;
  const auto row = [&](std::size_t axis, int p) { return axis_inside ? std::size_t(p) * 2 + axis : axis * positions + std::size_t(p); };
  for (std::size_t i = 0; i < h.size(); ++i) h[i] += table[row(0, x)][i] + table[row(1, y)][i];
  return h;
}

// [4 * frequencies]: cosines by x, by y, sines by x, by y
inline Vector grid_angles(int x, int y, const std::vector<float>& frequencies) {
  const Vector by_x = rope_angles(x, frequencies), by_y = rope_angles(y, frequencies);
  Vector angles;
  for (const std::size_t begin : {std::size_t{0}, frequencies.size()})
    for (const Vector* one : {&by_x, &by_y}) {
      const Vector part = slice(*one, begin, frequencies.size());
      angles.insert(angles.end(), part.begin(), part.end());
    }
  return angles;
}

// a, angles: [D]
inline Vector grid_rope(const Vector& a, const Vector& angles) {
  const std::size_t half = a.size() / 2, quarter = a.size() / 4;
  Vector rotated;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    Vector own = slice(angles, axis * quarter, quarter);
    const Vector sines = slice(angles, half + axis * quarter, quarter);
    own.insert(own.end(), sines.begin(), sines.end());
    const Vector part = rope(slice(a, axis * half, half), own);
    rotated.insert(rotated.end(), part.begin(), part.end());
  }
  return rotated;
}

// qkv: [3 * heads * D]; q_norm, k_norm, angles: [D]
inline Vector qkv_grid_rope(const Vector& qkv, const Vector& angles, const Vector& q_norm, const Vector& k_norm, double epsilon) {
  const std::size_t d = q_norm.size(), heads = qkv.size() / 3 / d;
  Vector out;
  for (std::size_t unit = 0; unit < 3 * heads; ++unit) {
    const Vector head = slice(qkv, unit * d, d);
    const Vector made = unit < heads       ? grid_rope(rms_norm(head, q_norm, epsilon), angles)
                        : unit < 2 * heads ? grid_rope(rms_norm(head, k_norm, epsilon), angles)
                                           : rms(head, epsilon);
    out.insert(out.end(), made.begin(), made.end());
  }
  return out;
}

// qkv: [rows][3 * heads * D]
inline Table attention_all(const Table& qkv, int heads, int head_dim) {
  const auto d = static_cast<std::size_t>(head_dim);
  const int last = static_cast<int>(qkv.size()) - 1;
  Table out(qkv.size());
  for (int head = 0; head < heads; ++head) {
    Table keys, values;
    for (const Vector& row : qkv) {
      keys.push_back(slice(row, std::size_t(heads + head) * d, d));
      values.push_back(slice(row, std::size_t(2 * heads + head) * d, d));
    }
    for (std::size_t r = 0; r < qkv.size(); ++r)
      for (const double value : attention_head(slice(qkv[r], std::size_t(head) * d, d), keys, values, last, last, 0)) out[r].push_back(value);
  }
  return out;
}

// in: [rows * columns][n]; bias, factor: [n] or empty
inline Table pool(const Table& in, int rows, int columns, int side, double scale, const Vector& bias, const Vector& factor) {
  Table out;
  for (int row = 0; row < rows; row += side)
    for (int column = 0; column < columns; column += side) {
      Vector sum(in[0].size(), 0.0);
      for (int i = 0; i < side * side; ++i)
        for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += in[std::size_t((row + i / side) * columns + column + i % side)][c];
      for (std::size_t c = 0; c < sum.size(); ++c) {
        sum[c] = sum[c] / (side * side) * scale;
        if (!bias.empty()) sum[c] = (sum[c] - bias[c]) * factor[c];
      }
      out.push_back(std::move(sum));
    }
  return out;
}

// in: [frames][bands * inputs], kernel: [9 * inputs][outputs], norm: [outputs]
inline Table conv_norm_relu(const Table& in, int bands, const Table& kernel, const Vector& norm, double epsilon) {
  const int frames = static_cast<int>(in.size()), inputs = static_cast<int>(in[0].size()) / bands;
  Table out;
  for (int t = 0; t < (frames - 1) / 2 + 1; ++t) {
    Vector row;
    for (int f = 0; f < bands / 2; ++f) {
      Vector y(norm.size(), 0.0);
      for (int tap = 0; tap < 9; ++tap) {
        const int frame = 2 * t + tap / 3 - 1, band = 2 * f + tap % 3 - 1;
        if (frame < 0 || frame >= frames || band < 0 || band >= bands) continue;
        for (int i = 0; i < inputs; ++i)
          for (std::size_t c = 0; c < y.size(); ++c)
            y[c] += in[std::size_t(frame)][std::size_t(band * inputs + i)] * kernel[std::size_t(tap * inputs + i)][c];
      }
      for (const double value : layer_norm(y, norm, {}, epsilon)) row.push_back(std::max(value, 0.0));
    }
    out.push_back(std::move(row));
  }
  return out;
}

// [2 * frequencies]
inline Vector distance_waves(int distance, const std::vector<float>& frequencies) {
  const Vector angles = rope_angles(distance, frequencies);
  Vector waves = slice(angles, frequencies.size(), frequencies.size());
  waves.insert(waves.end(), angles.begin(), angles.begin() + static_cast<std::ptrdiff_t>(frequencies.size()));
  return waves;
}

struct LocalAttention {
  int heads = 0, head_dim = 0, window = 0;
  double query_scale = 0, key_scale = 0, cap = 0;
};

// qkv: [frames][3 * heads * D], relative: [window][heads * D], dim_scale: [D]
inline Table local_attention(const Table& qkv, const Table& relative, const Vector& dim_scale, const LocalAttention& a) {
  const auto d = static_cast<std::size_t>(a.head_dim), heads = static_cast<std::size_t>(a.heads);
  Table out(qkv.size());
  for (std::size_t t = 0; t < qkv.size(); ++t)
    for (std::size_t head = 0; head < heads; ++head) {
      Vector scores;
      for (std::size_t e = 0; e < std::size_t(a.window) && e <= t; ++e) {
        double sum = 0.0;
        for (std::size_t i = 0; i < d; ++i)
          sum += qkv[t][head * d + i] * a.query_scale * softplus(dim_scale[i]) *
                 (qkv[t - e][(heads + head) * d + i] * a.key_scale + relative[e][head * d + i]);
        scores.push_back(softcap(sum, a.cap));
      }
      const double most = *std::ranges::max_element(scores);
      double sum = 0.0;
      Vector mixed(d, 0.0);
      for (std::size_t e = 0; e < scores.size(); ++e) {
        const double p = std::exp(scores[e] - most);
        sum += p;
        for (std::size_t i = 0; i < d; ++i) mixed[i] += p * qkv[t - e][(2 * heads + head) * d + i];
      }
      for (const double value : mixed) out[t].push_back(value / sum);
    }
  return out;
}

// in: [frames][2n], kernel: [taps][n], norm: [n]
inline Table glu_conv(const Table& in, const Table& kernel, const Vector& norm, double epsilon) {
  const std::size_t n = norm.size(), taps = kernel.size();
  Table out;
  for (std::size_t t = 0; t < in.size(); ++t) {
    Vector y(n, 0.0);
    for (std::size_t j = 0; j < taps; ++j) {
      if (t + j + 1 < taps) continue;
      const Vector& row = in[t + j + 1 - taps];
      for (std::size_t c = 0; c < n; ++c) y[c] += kernel[j][c] * row[c] * sigmoid(row[n + c]);
    }
    y = rms_norm(y, norm, epsilon);
    for (double& value : y) value = silu(value);
    out.push_back(std::move(y));
  }
  return out;
}

}  // namespace lapidary::reference
