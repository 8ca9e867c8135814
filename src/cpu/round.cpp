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

void keep_draft(std::int32_t token, graph::RoundState& state, Part part) {
  if (part.index != 0) return;
  assert(static_cast<std::size_t>(state.drafted) < state.drafts.size());
  state.drafts[state.drafted++] = token;
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

}  // namespace lapidary::cpu
