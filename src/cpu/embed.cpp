// The kernels that turn a row's token and position into numbers.
#include <algorithm>
#include <cmath>

#include "cpu/kernels.hpp"
#include "cpu/norm.hpp"
#include "cpu/share.hpp"
#include "numeric/dequant.hpp"

namespace lapidary::cpu {

void embed(Rows rows, In soft, const link::Matrix& table, float scale, Out out, Part part) {
  for_each_own(static_cast<int>(rows.size()), part, [&](int r) {
    if (rows[r].soft >= 0) {
      std::copy_n(soft[static_cast<std::size_t>(rows[r].soft)], table.cols, out[r]);
      return;
    }
    numeric::dequantise(table.row(0, rows[r].token), 0, table.cols, out[r]);
    for (int i = 0; i < table.cols; ++i) out[r][i] *= scale;
  });
}

void embed_pair(Rows rows, const link::Matrix& table, float scale, In hidden, Out out, Part part) {
  embed(rows, {}, table, scale, out, part);
  for_each_own(static_cast<int>(rows.size()), part, [&](int r) { std::copy_n(hidden[r], table.cols, out[r] + table.cols); });
}

void rope_angles(Rows rows, std::span<const float> frequencies, Out out, Part part) {
  const std::size_t half = frequencies.size();
  for_each_own(static_cast<int>(rows.size()), part, [&](int r) {
    const auto position = static_cast<float>(rows[r].position);
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = position * frequencies[i];
      out[r][i] = std::cos(angle);
      out[r][half + i] = std::sin(angle);
    }
  });
}

void ple_inputs(Rows rows, In projected, const link::Matrix& table, const float* norm, int layers, int width,
                float projection_scale, float table_scale, float epsilon, Out out, Part part) {
  constexpr float kHalfRoot = 0.707106781f;  // 2^(-1/2)
  constexpr int kPiece = 256;
  for_each_own(static_cast<int>(rows.size()) * layers, part, [&](int index) {
    const int r = index / layers, begin = index % layers * width;
    const float* a = projected[r] + begin;
    float* to = out[r] + begin;
    for (int i = 0; i < width; ++i) to[i] = a[i] * projection_scale;
    const float factor = inverse_rms(to, width, epsilon);
    for (int piece = 0; piece < width; piece += kPiece) {
      float entry[kPiece];
      const int count = std::min(kPiece, width - piece);
      numeric::dequantise(table.row(0, rows[r].token), begin + piece, count, entry);
      for (int i = 0; i < count; ++i) {
        to[piece + i] = (to[piece + i] * factor * norm[piece + i] + entry[i] * table_scale) * kHalfRoot;
      }
    }
  });
}

}  // namespace lapidary::cpu
