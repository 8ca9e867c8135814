#include "numeric/kv_codes.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

namespace lapidary::numeric {
namespace {

// Rudin-Shapiro: no row of H, and no single component, ends up in few components.
constexpr std::array<float, kMaxCoded> kSigns = [] {
  std::array<float, kMaxCoded> signs{};
  for (std::uint32_t i = 0; i < signs.size(); ++i) signs[i] = std::popcount(i & (i >> 1)) % 2 ? -1.0f : 1.0f;
  return signs;
}();

// x = H x, butterflies of distance n/2, n/4, ..., 1
void transform(float* x, int n) {
  int h = n / 2;
  for (; h >= 4; h /= 2)
    for (int begin = 0; begin < n; begin += 2 * h)
      for (int i = begin; i < begin + h; ++i) {
        const float a = x[i], b = x[i + h];
        x[i] = a + b;
        x[i + h] = a - b;
      }
  for (int i = 0; i < n; i += 4) {  // the last two, which compilers do not make vectors of
    const float a = x[i] + x[i + 2], b = x[i + 1] + x[i + 3], c = x[i] - x[i + 2], d = x[i + 1] - x[i + 3];
    x[i] = a + b;
    x[i + 1] = a - b;
    x[i + 2] = c + d;
    x[i + 3] = c - d;
  }
}

// The largest magnitude. Bits of magnitudes sort as the numbers do, and what is no number above them.
float largest_magnitude(const float* y, int n) {
  std::uint32_t most = 0;
  for (int i = 0; i < n; ++i) most = std::max(most, std::bit_cast<std::uint32_t>(y[i]) & 0x7fffffffu);
  return std::bit_cast<float>(most);
}

// Within these limits squares and scales are normal numbers.
constexpr float kLeast = 0x1p-40f, kMost = 0x1p50f;
bool is_nothing(float most) { return most < kLeast; }
bool is_too_much(float most) { return !(most <= kMost); }
float special_scale(float most) { return is_nothing(most) ? 0.0f : std::numeric_limits<float>::quiet_NaN(); }

// By halves: t[i] += t[i + h] for h = n/2, n/4, ..., 1
float sum_by_halves(float* t, int n) {
  for (int h = n / 2; h >= 1; h /= 2)
    for (int i = 0; i < h; ++i) t[i] += t[i + h];
  return t[0];
}

}  // namespace

void rotate(float* x, int n) {
  assert(can_be_coded(n));
  for (int i = 0; i < n; ++i) x[i] *= kSigns[static_cast<std::size_t>(i)];
  transform(x, n);
}

void rotate_back(float* x, int n) {
  assert(can_be_coded(n));
  transform(x, n);
  const float part = 1.0f / static_cast<float>(n);
  for (int i = 0; i < n; ++i) x[i] = x[i] * kSigns[static_cast<std::size_t>(i)] * part;
}

float encode_q8(const float* y, int n, std::int8_t* codes) {
  const float most = largest_magnitude(y, n);
  if (is_nothing(most) || is_too_much(most)) {
    std::fill_n(codes, n, std::int8_t{0});
    return special_scale(most);
  }
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum, ties to even.
  constexpr float kRound = 12582912.0f;
  const float factor = 127.0f / most;
  for (int i = 0; i < n; ++i)
    codes[i] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(y[i] * factor + kRound) - std::bit_cast<std::int32_t>(kRound));
  return most / 127.0f;
}

float encode_q4(const float* y, int n, std::uint8_t* bytes) {
  const float most = largest_magnitude(y, n);
  if (is_nothing(most) || is_too_much(most)) {
    std::fill_n(bytes, n / 2, std::uint8_t{0x88});
    return special_scale(most);
  }
  // Squares of the edges between codes, where the mean square is 1.
  constexpr std::array<float, 7> kEdges = {
      std::bit_cast<float>(0x3d888862u), std::bit_cast<float>(0x3e8e47e7u), std::bit_cast<float>(0x3f26aa7cu), std::bit_cast<float>(0x3f9a21f7u),
      std::bit_cast<float>(0x40030771u), std::bit_cast<float>(0x4058995du), std::bit_cast<float>(0x40b82e42u)};
  float squares[kMaxCoded], terms[kMaxCoded];
  for (int i = 0; i < n; ++i) squares[i] = terms[i] = y[i] * y[i];
  const float sum = sum_by_halves(terms, n), mean = sum * (1.0f / static_cast<float>(n));
  std::array<float, 7> edges;
  for (std::size_t j = 0; j < edges.size(); ++j) edges[j] = kEdges[j] * mean;
  std::int32_t nibbles[kMaxCoded];
  for (int i = 0; i < n; ++i) {
    std::int32_t above = 0;
    for (const float edge : edges) above += squares[i] > edge;
    nibbles[i] = y[i] < 0.0f ? 7 - above : 8 + above;
  }
  for (int i = 0; i < n; ++i) terms[i] = y[i] * static_cast<float>(kQ4Codes[static_cast<std::size_t>(nibbles[i])]);
  for (int b = 0; b < n / 2; ++b) bytes[b] = static_cast<std::uint8_t>(nibbles[b] | nibbles[b + n / 2] << 4);
  return sum / sum_by_halves(terms, n);
}

void decode_q8(const std::int8_t* codes, float scale, int n, float* x) {
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(codes[i]) * scale;
  rotate_back(x, n);
}

void decode_q4(const std::uint8_t* bytes, float scale, int n, float* x) {
  for (int b = 0; b < n / 2; ++b) {
    x[b] = static_cast<float>(kQ4Codes[bytes[b] % 16]) * scale;
    x[b + n / 2] = static_cast<float>(kQ4Codes[bytes[b] / 16]) * scale;
  }
  rotate_back(x, n);
}

}  // namespace lapidary::numeric
