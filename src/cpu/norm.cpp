// A row is the work of one thread from end to end.
#include "cpu/norm.hpp"

#include <algorithm>

#include "cpu/kernels.hpp"
#include "cpu/math.hpp"
#include "cpu/share.hpp"

namespace lapidary::cpu {
namespace {

// out = x * factor * weight; x, weight, out: [n]
void scale_by(const float* x, float factor, const float* weight, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

inline constexpr int kPiece = 256;

// Calls work(begin, count) for the pieces of 0..n.
template <class Work>
void for_each_piece(int n, Work work) {
  for (int i = 0; i < n; i += kPiece) work(i, std::min(kPiece, n - i));
}

}  // namespace

void rms_norm(int rows, In x, const float* weight, int n, float epsilon, Out out, Part part) {
  const Range range = share(rows, part);
  for (int r = range.begin; r < range.end; ++r) scale_by(x[r], inverse_rms(x[r], n, epsilon), weight, n, out[r]);
}

void residual_norm(int rows, Out h, In y, const float* post_norm, const float* scalar, int n, float epsilon,
                   std::span<const NormOutput> outputs, Part part) {
  const float layer_factor = scalar ? *scalar : 1.0f;
  const Range range = share(rows, part);
  for (int r = range.begin; r < range.end; ++r) {
    float* residual = h[r];
    const float* update = y[r];
    const float update_factor = inverse_rms(update, n, epsilon);
    for (int i = 0; i < n; ++i) residual[i] = (residual[i] + update[i] * update_factor * post_norm[i]) * layer_factor;
    if (outputs.empty()) continue;
    const float factor = inverse_rms(residual, n, epsilon);
    for (const NormOutput& output : outputs) {
      float* out = output.out[r];
      scale_by(residual, factor, output.weight, n, out);
      if (output.factor == 1.0f) continue;
      for (int i = 0; i < n; ++i) out[i] *= output.factor;
    }
  }
}

void moe_combine(int rows, Out h, In dense, In experts, In weights, int used, const MoeNorms& norms, int n, float epsilon,
                 Out next, Part part) {
  const float layer_factor = norms.scalar ? *norms.scalar : 1.0f;
  const Range range = share(rows, part);
  for (int r = range.begin; r < range.end; ++r) {
    float* residual = h[r];
    // The intermediate rows are computed again, piece by piece, for each use: that needs no room of their width.
    float piece[kPiece];
    const auto mix = [&](int begin, int count) {  // piece = m
      std::fill_n(piece, count, 0.0f);
      for (int slot = 0; slot < used; ++slot) {
        const float weight = weights[r][slot];
        const float* expert = experts[r] + static_cast<std::size_t>(slot) * n + begin;
        for (int i = 0; i < count; ++i) piece[i] = fused(weight, expert[i], piece[i]);
      }
    };

    SquareSum mixed;
    for_each_piece(n, [&](int begin, int count) {
      mix(begin, count);
      mixed.add(piece, count);
    });
    const float mixed_factor = mixed.inverse_rms(n, epsilon);
    const float dense_factor = inverse_rms(dense[r], n, epsilon);
    const auto add_up = [&](int begin, int count) {  // piece = norm(dense; w0) + norm(m; w1)
      mix(begin, count);
      for (int i = 0; i < count; ++i) {
        piece[i] = dense[r][begin + i] * dense_factor * norms.dense[begin + i] +
                   piece[i] * mixed_factor * norms.experts[begin + i];
      }
    };

    SquareSum summed;
    for_each_piece(n, [&](int begin, int count) {
      add_up(begin, count);
      summed.add(piece, count);
    });
    const float sum_factor = summed.inverse_rms(n, epsilon);
    for_each_piece(n, [&](int begin, int count) {
      add_up(begin, count);
      for (int i = begin; i < begin + count; ++i) {
        residual[i] = (residual[i] + piece[i - begin] * sum_factor * norms.sum[i]) * layer_factor;
      }
    });
    if (norms.next) scale_by(residual, inverse_rms(residual, n, epsilon), norms.next, n, next[r]);
  }
}

}  // namespace lapidary::cpu
