#include "cpu/dflash_rows.hpp"

#include <cstring>

namespace lapidary::cpu {

void DFlashRows::fetch_pending(int slot, link::Slots::Positions positions, const std::byte* kept, const BoundOperand& to) {
  pending_count_ = static_cast<std::size_t>(positions.end - positions.begin);
  for (std::size_t i = 0; i < pending_count_; ++i) {
    const std::int32_t position = positions.begin + static_cast<std::int32_t>(i);
    pending_[i] = {.slot = slot, .position = position, .block_end = position};
    std::memcpy(to.data + i * to.stride_bytes, kept + static_cast<std::size_t>(position % graph::kPendingRows) * to.row_bytes, to.row_bytes);
  }
}

void DFlashRows::add_block(const graph::RoundState& state, int slot, std::int32_t mask_token, std::int32_t context_begin, std::size_t first,
                           std::size_t count) {
  block_rows(state, slot, mask_token, context_begin, std::span(block_).subspan(first, count), std::span(block_causal_).subspan(first, count), Part{});
  block_count_ = first + count;
}

}  // namespace lapidary::cpu
