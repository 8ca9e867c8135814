// The ops of towers that hear.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "cpu/dot.hpp"
#include "cpu/norm.hpp"
#include "cpu/share.hpp"
#include "cpu/tower_kernels.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kMaxChannels = 1024;
constexpr int kMaxWindow = 64;
constexpr int kMaxHead = 2048;

[[gnu::always_inline]] inline float sigmoid(float x) { return 1.0f / (1.0f + numeric::exp(-x)); }

// y[V vectors from c on] += sum over i ascending of x[i] * kernel[i][c...]; kernel: [count, channels]
template <int V>
void add_inputs(const float* x, int count, const float* kernel, int channels, int c, float* y) {
  Vec sum[V];
  for (int v = 0; v < V; ++v) sum[v] = Vec::load(y + c + v * kLanes);
  for (int i = 0; i < count; ++i) {
    const Vec factor = Vec::broadcast(x[i]);
    const float* row = kernel + static_cast<std::size_t>(i) * channels + c;
    for (int v = 0; v < V; ++v) sum[v] = fused(factor, Vec::load(row + v * kLanes), sum[v]);
  }
  for (int v = 0; v < V; ++v) sum[v].store(y + c + v * kLanes);
}

}  // namespace

void conv_norm_relu(int frames, int bands, int inputs, int channels, In x, const float* kernel, const float* norm, float epsilon, Out out,
                    Part part) {
  assert(channels % kLanes == 0 && channels <= kMaxChannels);
  const int half_bands = bands / 2;
  for_each_own(((frames - 1) / 2 + 1) * half_bands, part, [&](int index) {
    const int t = index / half_bands, f = index % half_bands;
    float* y = out[t] + static_cast<std::size_t>(f) * channels;
    std::fill_n(y, channels, 0.0f);
    for (int dt = 0; dt < 3; ++dt) {
      const int frame = 2 * t + dt - 1, first = std::max(2 * f - 1, 0), last = std::min(2 * f + 1, bands - 1);
      if (frame < 0 || frame >= frames) continue;
      const float* from = x[frame] + static_cast<std::size_t>(first) * inputs;
      const float* taps = kernel + static_cast<std::size_t>(dt * 3 + first - (2 * f - 1)) * inputs * channels;
      const int count = (last - first + 1) * inputs;  // bands that follow each other, so do their taps
      int c = 0;
      for (; c + 4 * kLanes <= channels; c += 4 * kLanes) add_inputs<4>(from, count, taps, channels, c, y);
      for (; c < channels; c += kLanes) add_inputs<1>(from, count, taps, channels, c, y);
    }
    const float mean = mean_of(y, channels);
    for (int c = 0; c < channels; ++c) y[c] -= mean;
    const float factor = inverse_rms(y, channels, epsilon);
    for (int c = 0; c < channels; ++c) y[c] = std::max(y[c] * factor * norm[c], 0.0f);
  });
}

void distance_waves(int rows, std::span<const float> frequencies, Out out, Part part) {
  const std::size_t half = frequencies.size();
  for_each_own(rows, part, [&](int r) {
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(r) * frequencies[i];
      out[r][i] = std::sin(angle);
      out[r][half + i] = std::cos(angle);
    }
  });
}

void local_attention(int frames, In qkv, In relative, const float* dim_scale, const LocalAttention& shape, Out out, Part part) {
  const int d = shape.head_dim, width = shape.heads * d;
  assert(shape.window <= kMaxWindow && d <= kMaxHead);
  for_each_share(frames, part, 1, [&](Range range) {
    float scale[kMaxHead], q[kMaxHead], scores[kMaxWindow];
    for (int i = 0; i < d; ++i) scale[i] = shape.query_scale * std::log1p(std::exp(dim_scale[i]));
    for (int t = range.begin; t < range.end; ++t)
      for (int head = 0; head < shape.heads; ++head) {
        const int at = head * d, seen = std::min(shape.window, t + 1);
        for (int i = 0; i < d; ++i) q[i] = qkv[t][at + i] * scale[i];
        float most = -std::numeric_limits<float>::infinity();
        for (int e = 0; e < seen; ++e) {
          float by_key = 0, by_distance = 0;
          dot<1>(q, qkv[t - e] + width + at, 0, d, &by_key);
          dot<1>(q, relative[e] + at, 0, d, &by_distance);
          const float sum = numeric::fused(by_key, shape.key_scale, by_distance);
          scores[e] = shape.cap * numeric::tanh(sum / shape.cap);
          most = std::max(most, scores[e]);
        }
        float* to = out[t] + at;
        std::fill_n(to, d, 0.0f);
        float sum = 0.0f;
        for (int e = 0; e < seen; ++e) {
          const float p = numeric::exp(scores[e] - most);
          sum += p;
          const float* value = qkv[t - e] + 2 * width + at;
          for (int i = 0; i < d; ++i) to[i] = numeric::fused(p, value[i], to[i]);
        }
        for (int i = 0; i < d; ++i) to[i] /= sum;
      }
  });
}

void glu_conv(int frames, In x, const float* kernel, int taps, const float* norm, int n, float epsilon, Out out, Part part) {
  for_each_own(frames, part, [&](int t) {
    float* y = out[t];
    std::fill_n(y, n, 0.0f);
    for (int j = std::max(0, taps - 1 - t); j < taps; ++j) {
      const float* from = x[t - taps + 1 + j];
      const float* weight = kernel + static_cast<std::size_t>(j) * n;
      for (int c = 0; c < n; ++c) y[c] = numeric::fused(weight[c], from[c] * sigmoid(from[n + c]), y[c]);
    }
    const float factor = inverse_rms(y, n, epsilon);
    for (int c = 0; c < n; ++c) {
      const float normed = y[c] * factor * norm[c];
      y[c] = normed * sigmoid(normed);
    }
  });
}

}  // namespace lapidary::cpu
