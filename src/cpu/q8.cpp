#include "cpu/q8.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "numeric/small_floats.hpp"

namespace lapidary::cpu {
namespace {

std::uint16_t half_word(const std::byte* at) {
  std::uint16_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// bias | scale << 16 of a group. scales, biases: of its row
std::uint32_t scale_word(const Storage& storage, const std::byte* scales, const std::byte* biases, int group) {
  if (storage.encoding == Encoding::affine)
    return half_word(biases + 2 * group) | static_cast<std::uint32_t>(half_word(scales + 2 * group)) << 16;
  const auto code = std::to_integer<std::uint8_t>(scales[group]);
  const float scale = storage.encoding == Encoding::mxfp4 ? numeric::from_e8m0(code) : numeric::kE4m3[code];
  return std::bit_cast<std::uint32_t>(0.5f * scale);  // no more bits than bfloat16 has
}

Codes codes_of(const Storage& storage) {
  if (storage.encoding != Encoding::affine) return Codes::e2m1;
  switch (storage.bits) {
    case 2: return Codes::u2;
    case 3: return Codes::u3;
    case 4: return Codes::u4;
    case 5: return Codes::u5;
    case 6: return Codes::u6;
    default: return Codes::u8;
  }
}

// Of w + 16 (w & 15).
std::uint16_t sum_of_bytes(const std::uint8_t* values, int bytes) {
  unsigned sum = 0, low = 0;
  for (int i = 0; i < bytes; ++i) sum += values[i], low += values[i] & 15u;
  return static_cast<std::uint16_t>(sum + 16 * low);
}

float scale_of(std::uint32_t word) { return std::bit_cast<float>(word & 0xffff0000u); }
float bias_of(std::uint32_t word) { return std::bit_cast<float>(word << 16); }

// To the nearest, ties to even; what is not a number becomes 0.
std::int8_t rounded(float x) { return x == x ? static_cast<std::int8_t>(std::nearbyint(x)) : std::int8_t{0}; }

// Groups of one row: q [cols], in each group of pairs the odd elements first; factors [groups, 2] = a, a * sum.
void quantise_row(const float* x, int groups, Q8Form form, std::int8_t* q, float* factors) {
  const int n = form.group, half = n / 2;
  for (int g = 0; g < groups; ++g, x += n, q += n, factors += 2) {
    float most = 0.0f;
    bool numbers = true;
    const auto see = [&](float value) {
      most = std::max(most, std::abs(value));
      numbers &= value == value;
    };
    const auto inverse = [&] {
      if (!numbers) most = std::numeric_limits<float>::quiet_NaN();
      return most >= kLeastQ8 ? 127.0f / most : 0.0f;
    };
    std::int32_t sum = 0;
    if (!form.paired) {
      for (int i = 0; i < n; ++i) see(x[i]);
      const float r = inverse();
      for (int i = 0; i < n; ++i) sum += q[i] = rounded(x[i] * r);
      factors[0] = most / 127.0f;
    } else {
      for (int i = 0; i < half; ++i) {
        see(x[2 * i + 1]);
        see(std::fma(x[2 * i + 1], -0.0625f, x[2 * i]));
      }
      const float r = inverse();
      for (int i = 0; i < half; ++i) {
        const std::int8_t u = rounded(x[2 * i + 1] * r);
        const std::int8_t v = rounded(std::fma(static_cast<float>(u), -0.0625f, x[2 * i] * r));
        q[i] = u;
        q[half + i] = v;
        sum += 17 * u + 16 * v;
      }
      factors[0] = most / 127.0f * 0.0625f;
    }
    factors[1] = factors[0] * static_cast<float>(sum);
  }
}

// Code i of a group, as an integer.
int code_at(const std::uint8_t* w, int i, Codes codes) {
  const int bits = bits_of(codes), first = i * bits, last = first + bits - 1;
  const int value = (w[first / 8] | w[last / 8] << 8 * (last / 8 - first / 8)) >> first % 8 & ((1 << bits) - 1);
  return codes == Codes::e2m1 ? static_cast<int>(2.0f * numeric::kE2m1[value]) : value;
}

std::int32_t dot(const std::uint8_t* w, const std::int8_t* q, Q8Format format) {
  std::int32_t sum = 0;
  if (format.form().paired) {
    const int half = format.group / 2;
    for (int i = 0; i < half; ++i) sum += w[i] * q[i] + (w[i] & 15) * 16 * q[half + i];
  } else {
    for (int i = 0; i < format.group; ++i) sum += code_at(w, i, format.codes) * q[i];
  }
  return sum;
}

void quantise(const float* const* x, const Q8Tile& tile, Range groups) {
  const int group = tile.form.group, all = tile.cols / group;
  for (int r = 0; r < tile.rows; ++r) {
    const std::size_t first = static_cast<std::size_t>(r) * all + groups.begin;
    quantise_row(x[r] + groups.begin * group, groups.end - groups.begin, tile.form, tile.q + first * group, tile.factors + first * 2);
  }
}

void multiply(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  const int groups = w.cols / w.format.group, group_bytes = w.format.group_bytes();
  for (int step = steps.begin; step < steps.end; ++step)
    for (int stream = 0; stream < kStreams; ++stream) {
      const int n = w.sweep.row(step, stream);
      if (n >= w.rows) continue;
      const auto* values = reinterpret_cast<const std::uint8_t*>(w.values + n * w.row_bytes);
      const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams + stream;
      for (int r = 0; r < tile.rows; ++r) {
        const std::int8_t* q = tile.q + static_cast<std::size_t>(r) * w.cols;
        const float* factors = tile.factors + static_cast<std::size_t>(r) * groups * 2;
        float sum = 0.0f;
        for (int g = 0; g < groups; ++g) {
          const std::int32_t d = dot(values + g * group_bytes, q + g * w.format.group, w.format);
          const std::uint32_t word = scales[g * kStreams];
          sum = std::fma(static_cast<float>(d), scale_of(word) * factors[2 * g], sum);
          if (has_biases(w.format.codes)) sum = std::fma(bias_of(word), factors[2 * g + 1], sum);
        }
        y[r][n] = sum;
      }
    }
}

}  // namespace

const Q8Kernels kPortableQ8 = {"portable", Order::neighbours, false, quantise, multiply};

Sweep::Sweep(int rows, int cols, Order order) : order_(order), rows_(rows), quarter_((rows + kStreams - 1) / kStreams) {
  if (order == Order::neighbours) return;
  // Streams that lie a multiple of 16 KiB apart meet in the same sets of a 64 KiB cache of 4 ways.
  constexpr std::size_t kSet = 16384;
  const std::size_t row_bytes = static_cast<std::size_t>(cols) / 2;
  std::size_t best = 0;
  for (int shift = 0; shift < 16 && shift * kStreams < quarter_; ++shift) {
    std::size_t nearest = kSet;
    for (int stream = 1; stream < kStreams; ++stream) {
      const std::size_t apart = stream * static_cast<std::size_t>(quarter_ + shift) * row_bytes % kSet;
      nearest = std::min({nearest, apart, kSet - apart});
    }
    if (nearest > best) best = nearest, shift_ = shift;
  }
}

bool has_q8(const link::Matrix& matrix) {
  const Encoding encoding = matrix.storage.encoding;
  return (encoding == Encoding::affine && matrix.storage.type == DType::bf16) || encoding == Encoding::mxfp4 || encoding == Encoding::nvfp4;
}

Q8Format format_of(const link::Matrix& matrix) { return {codes_of(matrix.storage), matrix.storage.group}; }

std::size_t scale_words(const Q8Kernels& kernels, const link::Matrix& matrix) {
  const std::size_t steps = (matrix.rows + kStreams - 1) / kStreams, groups = matrix.cols / matrix.storage.group;
  return steps * groups * group_words(kernels, format_of(matrix));
}

void interleave_scales(const Q8Kernels& kernels, const link::Matrix& matrix, int expert, std::uint32_t* scales) {
  assert(has_q8(matrix));
  const Sweep sweep(matrix.rows, matrix.cols, kernels.order);
  const Q8Format format = format_of(matrix);
  const int groups = matrix.cols / format.group, words = group_words(kernels, format), group_bytes = format.group_bytes();
  for (int step = 0; step < sweep.steps(); ++step)
    for (int stream = 0; stream < kStreams; ++stream) {
      const int row = std::min(sweep.row(step, stream), matrix.rows - 1);
      const std::size_t at = expert * matrix.scale_expert_bytes + row * matrix.scale_row_bytes;
      const std::byte* biases = matrix.biases ? matrix.biases + at : nullptr;
      std::uint32_t* out = scales + static_cast<std::size_t>(step) * groups * words;
      for (int g = 0; g < groups; ++g) out[g * words + stream] = scale_word(matrix.storage, matrix.scales + at, biases, g);
      if (words == kStreams) continue;
      const auto* values = reinterpret_cast<const std::uint8_t*>(matrix.values + expert * matrix.expert_bytes + row * matrix.row_bytes);
      for (int g = 0; g < groups; ++g) {
        const std::uint16_t sum = sum_of_bytes(values + g * group_bytes, group_bytes);
        std::memcpy(reinterpret_cast<std::byte*>(out + g * words + kStreams) + stream * sizeof sum, &sum, sizeof sum);
      }
    }
}

Q8Weights Q8Matrix::weights(int expert) const {
  return {.format = format(), .rows = matrix->rows, .cols = matrix->cols, .sweep = sweep,
          .values = matrix->values + expert * matrix->expert_bytes, .row_bytes = matrix->row_bytes,
          .scales = scales + expert * scale_words(*kernels, *matrix)};
}

}  // namespace lapidary::cpu
