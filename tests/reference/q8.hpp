// The fast mode: what is left of a row after it was quantised for weights of a storage, and the exact product of that with the
// weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/dequantise.hpp"

namespace lapidary::reference {

// A group whose largest is below this may count as zeros: 127 divided by half of it is hardly a float32 any more.
inline constexpr double kLeast = 0x1p-120;

// Are activations quantised two by two?
inline bool is_paired(const Storage& storage) { return storage.encoding == Encoding::affine && storage.bits == 4; }

// Rounding to float32 is part of the definition, see src/cpu/q8.hpp; x: [k], k a multiple of the group
inline Vector quantised(const std::vector<float>& x, const Storage& storage) {
  const bool paired = is_paired(storage);
  const int group = storage.group;
  Vector left(x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(group)) {
    float most = 0.0f;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(group); i += paired ? 2 : 1) {
      if (paired) {
        most = std::max({most, std::abs(x[i + 1]), std::abs(std::fma(x[i + 1], -0.0625f, x[i]))});
      } else {
        most = std::max(most, std::abs(x[i]));
      }
    }
    if (most < kLeast) continue;
    const float a = most / 127.0f, r = 127.0f / most;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(group); i += paired ? 2 : 1) {
      if (!paired) {
        left[i] = static_cast<double>(a) * std::nearbyint(x[i] * r);
      } else {
        const float u = std::nearbyint(x[i + 1] * r);
        const float v = std::nearbyint(std::fma(u, -0.0625f, x[i] * r));
        left[i + 1] = static_cast<double>(a) * u;
        left[i] = static_cast<double>(a) * (v + u / 16.0);
      }
    }
  }
  return left;
}

// The products with all rows of a matrix, and how far those in float32 may lie from them: [rows] each.
struct Q8Product {
  Vector values, errors;
};

// A group adds scale * a times an integer, then bias times a * integer. Both factors and every new sum are rounded.
inline Q8Product q8_product(const link::Matrix& matrix, const std::vector<float>& x, int expert = 0) {
  constexpr double kRounding = 0x1p-24 * 1.001;  // what earlier roundings add to the next is in the excess
  const int group = matrix.storage.group;
  const Vector left = quantised(x, matrix.storage);
  Q8Product product;
  for (int row = 0; row < matrix.rows; ++row) {
    double sum = 0.0, error = 0.0;
    for (int begin = 0; begin < matrix.cols; begin += group) {
      double scaled = 0.0, bias = 0.0, magnitude = 0.0;
      for (int col = begin; col < begin + group; ++col) {
        const Weight weight = weight_at(matrix, row, col, expert);
        scaled += weight.scaled * left[col];
        bias += weight.bias * left[col];
        magnitude += weight.magnitude();
      }
      for (const double part : {scaled, bias}) {
        sum += part;
        error += kRounding * (std::abs(part) + std::abs(sum));
      }
      error += 2 * kLeast * magnitude;
    }
    product.values.push_back(sum);
    product.errors.push_back(error);
  }
  return product;
}

}  // namespace lapidary::reference
