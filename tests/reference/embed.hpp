// embed, ple_inputs. Both take the token's row of their table, dequantised.
#pragma once

#include <cmath>

#include "reference/norm.hpp"

namespace lapidary::reference {

// table_row: [hidden]; soft: [hidden], or null where the token is one of the vocabulary
inline Vector embed(Vector table_row, double scale, const Vector* soft = nullptr) {
  if (soft) return *soft;
  for (double& value : table_row) value *= scale;
  return table_row;
}

// projected, table_row: [layers * width], norm: [width]
inline Vector ple_inputs(const Vector& projected, const Vector& table_row, const Vector& norm, double projection_scale,
                         double table_scale, double epsilon) {
  Vector out;
  for (std::size_t begin = 0; begin < projected.size(); begin += norm.size()) {
    Vector layer(projected.begin() + begin, projected.begin() + begin + norm.size());
    for (double& value : layer) value *= projection_scale;
    const Vector normed = rms_norm(layer, norm, epsilon);
    for (std::size_t i = 0; i < norm.size(); ++i)
      out.push_back((normed[i] + table_row[begin + i] * table_scale) / std::sqrt(2.0));
  }
  return out;
}

}  // namespace lapidary::reference
