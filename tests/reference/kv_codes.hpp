// K/V as codes with scales: how rows are coded, to the bit, and what they stand for.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "reference/attention.hpp"

namespace lapidary::reference {

using Floats = std::vector<float>;

inline int code_sign(std::size_t i) { return std::popcount(i & (i >> 1)) % 2 ? -1 : 1; }

// Sums and differences of the two halves, each transformed in turn.
inline Floats hadamard(const Floats& x) {
  if (x.size() == 1) return x;
  const std::size_t half = x.size() / 2;
  Floats sums(half), differences(half);
  for (std::size_t i = 0; i < half; ++i) {
    sums[i] = x[i] + x[i + half];
    differences[i] = x[i] - x[i + half];
  }
  Floats all = hadamard(sums);
  const Floats low = hadamard(differences);
  all.insert(all.end(), low.begin(), low.end());
  return all;
}

inline Floats rotated(Floats x) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= static_cast<float>(code_sign(i));
  return hadamard(x);
}

struct Coded {
  std::vector<std::int8_t> codes{};  // q4 as what the nibbles stand for
  std::vector<std::uint8_t> bytes{};  // as they are stored
  float scale = 0.0f;
};

inline float largest_magnitude(const Floats& y) {
  float most = 0.0f;
  for (const float x : y) most = std::isfinite(x) ? std::max(most, std::abs(x)) : std::numeric_limits<float>::infinity();
  return std::ranges::all_of(y, [](float x) { return std::isfinite(x); }) ? most : std::numeric_limits<float>::infinity();
}
inline bool is_special(float most) { return most < 0x1p-40f || most > 0x1p50f; }
inline float scale_of_special(float most) { return most < 1.0f ? 0.0f : std::numeric_limits<float>::quiet_NaN(); }

// y: rotated
inline Coded encode_q8(const Floats& y) {
  const float most = largest_magnitude(y);
  Coded coded{.codes = std::vector<std::int8_t>(y.size(), 0), .scale = is_special(most) ? scale_of_special(most) : most / 127.0f};
  if (!is_special(most))
    for (std::size_t i = 0; i < y.size(); ++i) coded.codes[i] = static_cast<std::int8_t>(std::nearbyint(y[i] * (127.0f / most)));
  for (const std::int8_t code : coded.codes) coded.bytes.push_back(static_cast<std::uint8_t>(code));
  return coded;
}

inline float sum_of_halves(const Floats& t) {
  if (t.size() == 1) return t[0];
  Floats half(t.size() / 2);
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = t[i] + t[i + half.size()];
  return sum_of_halves(half);
}

inline constexpr int kNibbleCodes[] = {-127, -96, -75, -58, -44, -31, -18, -6, 6, 18, 31, 44, 58, 75, 96, 127};

inline Coded encode_q4(const Floats& y) {
  constexpr std::uint32_t kEdges[] = {0x3d888862, 0x3e8e47e7, 0x3f26aa7c, 0x3f9a21f7, 0x40030771, 0x4058995d, 0x40b82e42};
  const float most = largest_magnitude(y);
  std::vector<int> nibbles(y.size(), 8);
  Coded coded{.scale = scale_of_special(most)};
  if (!is_special(most)) {
    Floats squares, products;
    for (const float x : y) squares.push_back(x * x);
    const float sum = sum_of_halves(squares), mean = sum * (1.0f / static_cast<float>(y.size()));
    for (std::size_t i = 0; i < y.size(); ++i) {
      int above = 0;
      for (const std::uint32_t edge : kEdges) above += squares[i] > std::bit_cast<float>(edge) * mean;
      nibbles[i] = y[i] < 0 ? 7 - above : 8 + above;
      products.push_back(y[i] * static_cast<float>(kNibbleCodes[nibbles[i]]));
    }
    coded.scale = sum / sum_of_halves(products);
  }
  for (const int nibble : nibbles) coded.codes.push_back(static_cast<std::int8_t>(is_special(most) ? 0 : kNibbleCodes[nibble]));
  for (std::size_t b = 0; b < y.size() / 2; ++b) coded.bytes.push_back(static_cast<std::uint8_t>(nibbles[b] | nibbles[b + y.size() / 2] << 4));
  return coded;
}

// What codes stand for: the matrix as it is defined, in double.
inline Vector restored(const Coded& coded) {
  const std::size_t n = coded.codes.size();
  Vector x(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) x[i] += (std::popcount(i & j) % 2 ? -1 : 1) * static_cast<double>(coded.codes[j]);
    x[i] *= code_sign(i) * static_cast<double>(coded.scale) / static_cast<double>(n);
  }
  return x;
}

// A key of a layer whose values are its keys before norm and rotation: values times the norm but for the pairs (i, i + n/2) that turn.
inline Vector key_of(const Vector& value, const Vector& turned, const Vector& norm) {
  Vector key(value.size());
  const std::size_t half = key.size() / 2, pairs = turned.size() / 2;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = i % half < pairs ? turned[i % half + (i < half ? 0 : pairs)] : norm[i] * value[i];
  return key;
}

}  // namespace lapidary::reference
