// The rows that the DFlash drafter works on: of a session those whose context it gets, and blocks of one or more.
#pragma once

#include <array>
#include <cstddef>

#include "cpu/bound_steps.hpp"
#include "cpu/kernels.hpp"
#include "link/slots.hpp"

namespace lapidary::cpu {

class DFlashRows {
 public:
  // Rows that wait, with their features in the order of the row table. kept: the session's ring of them
  void fetch_pending(int slot, link::Slots::Positions positions, const std::byte* kept, const BoundOperand& to);

  // A block from row `first` on, behind those of others; the first of them begins anew. context_begin: the first position that the
  // drafter has K/V of
  void add_block(const graph::RoundState& state, int slot, std::int32_t mask_token, std::int32_t context_begin, std::size_t first,
                 std::size_t count);

  Rows pending() const { return Rows(pending_).first(pending_count_); }
  Rows block() const { return Rows(block_).first(block_count_); }
  Rows block_causal() const { return Rows(block_causal_).first(block_count_); }

 private:
  std::array<graph::Row, graph::kPendingRows> pending_{};
  std::size_t pending_count_ = 0;
  std::array<graph::Row, graph::kMaxVerifyRows> block_{}, block_causal_{};
  std::size_t block_count_ = 0;
};

}  // namespace lapidary::cpu
