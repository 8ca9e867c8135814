// Calls the sample kernel as the executor does.
#pragma once

#include "cpu/kernel_rows.hpp"

namespace lapidary::test {

inline std::vector<std::int32_t> sample(const FloatRows& logits, const graph::Selection* selection = nullptr,
                                        int parts = 1) {
  const int rows = static_cast<int>(logits.size()), n = static_cast<int>(logits.front().size());
  const RowBuffer in(logits);
  IdBuffer out(rows, 1), candidates(rows, n);
  RowBuffer weights(rows, n);
  in_parts(parts, [&](cpu::Part part) {
    cpu::sample(rows, in.in(), {}, n, selection, out.out(), weights.out(), candidates.out(), part);
  });
  weights.rows(), candidates.rows();  // for their gaps
  std::vector<std::int32_t> chosen;
  for (const auto& row : out.rows()) chosen.push_back(row[0]);
  return chosen;
}

// One row.
inline std::int32_t sample(const std::vector<float>& logits, const graph::Sampling& sampling,
                           const graph::SelectRow& row = {}, std::span<const std::int32_t> counts = {}) {
  const graph::Selection selection{sampling, counts, {&row, 1}};
  return sample(FloatRows{logits}, &selection).front();
}

}  // namespace lapidary::test
