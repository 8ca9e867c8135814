// The steps that read and write the state of a round. They are small: the first thread does them alone.
#include <algorithm>
#include <cassert>

#include "cpu/kernels.hpp"

namespace lapidary::cpu {

void verify_rows(const graph::RoundState& state, int slot, std::span<graph::Row> rows, Part part) {
  if (part.index != 0) return;
  for (std::int32_t i = 0; i <= state.drafted; ++i) {
    const std::int32_t position = state.length + i;
    rows[i] = {slot, position, i == 0 ? state.bonus : state.drafts[i - 1], position};
  }
}

void draft_row(const graph::RoundState& state, int slot, graph::Row& row, Part part) {
  if (part.index != 0) return;
  const std::int32_t position = state.length - 1;
  row = {slot, position, state.drafted == 0 ? state.bonus : state.drafts[state.drafted - 1], position};
}

void block_rows(const graph::RoundState& state, int slot, std::int32_t mask_token, std::int32_t begin, std::span<graph::Row> all,
                std::span<graph::Row> causal, Part part) {
  if (part.index != 0) return;
  const std::int32_t last = state.length + static_cast<std::int32_t>(all.size()) - 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int32_t position = state.length + static_cast<std::int32_t>(i);
    all[i] = {.slot = slot, .position = position, .token = i == 0 ? state.bonus : mask_token, .block_end = last, .begin = begin};
    causal[i] = all[i];
    causal[i].block_end = position;
  }
}

void keep_draft(std::int32_t token, graph::RoundState& state, Part part) {
  if (part.index != 0) return;
  assert(static_cast<std::size_t>(state.drafted) < state.drafts.size());
  state.drafts[state.drafted++] = token;
}

void keep_block(int drafts, InIds tokens, graph::RoundState& state, Part part) {
  if (part.index != 0) return;
  assert(static_cast<std::size_t>(drafts) <= state.drafts.size());
  for (int i = 0; i < drafts; ++i) state.drafts[static_cast<std::size_t>(i)] = tokens[static_cast<std::size_t>(i)][0];
  state.drafted = drafts;
}

void accept(Rows rows, InIds chosen, In hidden, int n, graph::RoundState& state, std::span<std::int32_t> counts, float* carry,
            Part part) {
  if (part.index != 0) return;
  std::int32_t accepted = 0;
  while (accepted < state.drafted && chosen[accepted][0] == state.drafts[accepted]) ++accepted;
  if (!counts.empty())
    for (std::int32_t i = 0; i <= accepted; ++i) ++counts[chosen[i][0]];
  std::copy_n(hidden[accepted], n, carry);
  state.accepted = accepted;
  state.bonus = chosen[accepted][0];
  state.length = rows[accepted].position + 1;
  state.emitted += accepted + 1;
  state.drafted = 0;
}

void keep_features(Rows rows, In features, int n, const graph::RoundState& state, float* ring, Part part) {
  if (part.index != 0) return;
  for (std::int32_t i = 0; i <= state.accepted; ++i)
    std::copy_n(features[i], n, ring + static_cast<std::size_t>(rows[i].position % graph::kPendingRows) * static_cast<std::size_t>(n));
}

}  // namespace lapidary::cpu
