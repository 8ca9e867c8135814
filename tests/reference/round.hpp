// round_rows, keep_draft, keep_block, accept.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "graph/row.hpp"

namespace lapidary::reference {

// round_rows in `forward`: the bonus token, then the drafts.
inline std::vector<graph::Row> verify_rows(const graph::RoundState& state, std::int32_t slot) {
  std::vector<std::int32_t> tokens = {state.bonus};
  for (std::int32_t i = 0; i < state.drafted; ++i) tokens.push_back(state.drafts[i]);
  std::vector<graph::Row> rows;
  std::int32_t position = state.length;
  for (const std::int32_t token : tokens) {
    rows.push_back({.slot = slot, .position = position, .token = token, .block_end = position});
    ++position;
  }
  return rows;
}

// round_rows in `draft`: the last of those tokens, where the K/V of the target end.
inline graph::Row draft_row(const graph::RoundState& state, std::int32_t slot) {
  const std::int32_t position = state.length - 1;
  return {.slot = slot, .position = position, .token = verify_rows(state, slot).back().token, .block_end = position};
}

// round_rows in `block`: the bonus token, then a mask for each draft. They see from `begin` on, all of their block or as far as they are.
inline std::vector<graph::Row> block_rows(const graph::RoundState& state, std::int32_t slot, int drafts, std::int32_t mask_token,
                                          std::int32_t begin, bool causal) {
  std::vector<graph::Row> rows;
  for (int i = 0; i <= drafts; ++i) {
    const std::int32_t position = state.length + i;
    rows.push_back({.slot = slot, .position = position, .token = i == 0 ? state.bonus : mask_token,
                    .block_end = causal ? position : state.length + drafts, .begin = begin});
  }
  return rows;
}

// chosen: by all rows of the block, the bonus token's first
inline graph::RoundState keep_block(graph::RoundState state, const std::vector<std::int32_t>& chosen) {
  state.drafted = static_cast<std::int32_t>(chosen.size()) - 1;
  for (std::int32_t i = 0; i < state.drafted; ++i) state.drafts[i] = chosen[i + 1];
  return state;
}

inline graph::RoundState keep_draft(graph::RoundState state, std::int32_t token) {
  state.drafts[state.drafted] = token;
  state.drafted += 1;
  return state;
}

struct Accepted {
  graph::RoundState state;
  std::vector<std::int32_t> counts;
  std::vector<float> carry;
  std::map<std::int32_t, std::vector<float>> features;  // by place in the ring of those that wait
};

// rows, chosen, hidden, features: what each row of the round is, chose, left in `hidden` and in the layers that are tapped; counts:
// [vocab] or empty
inline Accepted accept(const graph::RoundState& before, const std::vector<graph::Row>& rows,
                       const std::vector<std::int32_t>& chosen, const std::vector<std::vector<float>>& hidden,
                       const std::vector<std::vector<float>>& features, std::vector<std::int32_t> counts) {
  std::int32_t n = before.drafted;
  for (std::int32_t i = before.drafted - 1; i >= 0; --i)
    if (chosen[i] != before.drafts[i]) n = i;

  graph::RoundState state = before;
  state.accepted = n;
  state.bonus = chosen[n];
  state.length = rows[n].position + 1;
  state.emitted = before.emitted + n + 1;
  state.drafted = 0;
  for (std::int32_t row = 0; row <= n && !counts.empty(); ++row) counts[chosen[row]] += 1;
  std::map<std::int32_t, std::vector<float>> kept;
  for (std::int32_t row = 0; row <= n; ++row) kept[rows[row].position % graph::kPendingRows] = features[row];
  return {state, counts, hidden[n], kept};
}

}  // namespace lapidary::reference
