// Calls the sample kernel as the executor does.
#pragma once

#include <optional>

#include "cpu/kernel_rows.hpp"
#include "cpu/maxima.hpp"
#include "cpu/share.hpp"
#include "support/choosing.hpp"

namespace lapidary::test {

// lists: the tokens of the logits; none = all
inline Ids sample(const FloatRows& logits, const IdRows& lists, const graph::Selection* selection, int parts, cpu::In maxima) {
  const int rows = count_of(logits), n = count_of(logits.front());
  const RowBuffer in(logits);
  std::optional<IdBuffer> tokens;
  if (!lists.empty()) tokens.emplace(lists);
  IdBuffer out(rows, 1), candidates(rows, n);
  RowBuffer weights(rows, n);
  in_parts(parts, [&](cpu::Part part) {
    cpu::sample(rows, in.in(), tokens ? tokens->in() : cpu::InIds{}, n, maxima, selection, out.out(), weights.out(),
                candidates.out(), part);
  });
  weights.rows(), candidates.rows();  // for their gaps
  boost::ut::expect(!tokens || tokens->rows() == lists) << "the list has changed";
  const FloatRows after = in.rows();
  for (int r = 0; r < rows; ++r)
    boost::ut::expect(std::memcmp(after[r].data(), logits[r].data(), n * sizeof(float)) == 0) << "logits have changed";
  Ids chosen;
  for (const Ids& row : out.rows()) chosen.push_back(row[0]);
  return chosen;
}

// By the logits alone; where they belong to all tokens also with what a head of three threads knows of them, which changes nothing.
inline Ids sample(const FloatRows& logits, const IdRows& lists, const graph::Selection* selection, int parts = 1) {
  const Ids chosen = sample(logits, lists, selection, parts, {});
  if (!lists.empty()) return chosen;
  const int n = count_of(logits.front());
  RowBuffer maxima(count_of(logits), cpu::kMaxStretches);
  for (int r = 0; r < count_of(logits); ++r)
    in_parts(3, [&](cpu::Part part) {
      const cpu::Range mine = cpu::share(n, part);
      cpu::find_maxima(logits[r].data(), n, mine.begin, mine.end - mine.begin, maxima.out()[r]);
    });
  boost::ut::expect(sample(logits, lists, selection, parts, maxima.in()) == chosen) << "maxima change the choice";
  return chosen;
}

inline Ids choose_on_cpu(const Choosing& from) {
  if (!from.sampling) return sample(from.logits, from.lists, nullptr);
  std::vector<graph::SelectRow> rows;
  for (std::size_t r = 0; r < from.logits.size(); ++r) rows.push_back(from.row(r));
  const graph::Selection selection{*from.sampling, from.counts, rows};
  return sample(from.logits, from.lists, &selection);
}

}  // namespace lapidary::test
