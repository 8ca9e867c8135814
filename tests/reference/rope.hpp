// rope_angles; qkv_norm_rope: q and K are norm_rope of the projections, V is norm_values; block_qkv.
#pragma once

#include <cmath>
#include <cstdint>

#include "reference/norm.hpp"

namespace lapidary::reference {

// [2 * frequencies]: all cosines, then all sines. The angle is a float32 product.
inline Vector rope_angles(std::int32_t position, const std::vector<float>& frequencies) {
  Vector angles;
  for (const float f : frequencies) angles.push_back(std::cos(static_cast<double>(static_cast<float>(position) * f)));
  for (const float f : frequencies) angles.push_back(std::sin(static_cast<double>(static_cast<float>(position) * f)));
  return angles;
}

// a: [D], angles: [D]: D/2 cosines, D/2 sines
inline Vector rope(const Vector& a, const Vector& angles) {
  const std::size_t half = a.size() / 2;
  Vector rotated(a.size());
  for (std::size_t i = 0; i < half; ++i) {
    const double cosine = angles[i], sine = angles[half + i];
    rotated[i] = a[i] * cosine - a[i + half] * sine;
    rotated[i + half] = a[i + half] * cosine + a[i] * sine;
  }
  return rotated;
}

inline Vector slice(const Vector& x, std::size_t begin, std::size_t count) {
  return Vector(x.begin() + begin, x.begin() + begin + count);
}

// The heads of q or k, one after the other: x [heads * D], weight [D], angles [D]
inline Vector norm_rope(const Vector& x, const Vector& weight, const Vector& angles, double epsilon) {
  Vector y;
  for (std::size_t begin = 0; begin < x.size(); begin += weight.size())
    for (const double value : rope(rms_norm(slice(x, begin, weight.size()), weight, epsilon), angles))
      y.push_back(value);
  return y;
}

// The heads of v: x [heads * D]
inline Vector norm_values(const Vector& x, std::size_t head_dim, double epsilon) {
  Vector y;
  for (std::size_t begin = 0; begin < x.size(); begin += head_dim)
    for (const double value : rms(slice(x, begin, head_dim), epsilon)) y.push_back(value);
  return y;
}

// q | K | V of a row. qkv: [(heads + 2 kv_heads) * D]; q_norm, k_norm, angles: [D]
inline Vector block_qkv(const Vector& qkv, std::size_t heads, std::size_t kv_heads, const Vector& q_norm, const Vector& k_norm,
                        const Vector& angles, double scale, double epsilon) {
  const std::size_t d = angles.size();
  Vector y = norm_rope(slice(qkv, 0, heads * d), q_norm, angles, epsilon);
  for (double& value : y) value *= scale;
  for (const double value : norm_rope(slice(qkv, heads * d, kv_heads * d), k_norm, angles, epsilon)) y.push_back(value);
  for (const double value : slice(qkv, (heads + kv_heads) * d, kv_heads * d)) y.push_back(value);
  return y;
}

}  // namespace lapidary::reference
