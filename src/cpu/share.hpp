// How a kernel gets at its work.
#pragma once

#include "cpu/board.hpp"

namespace lapidary::cpu {

// Calls work(Range) for what this part does of 0..total, in whole grains (the last may be short): what it gets hold of on the board
// of its team, or a fixed share where it has none.
template <class Work>
void for_each_share(int total, Part part, int grain, Work work) {
  if (part.board) return part.board->divide(total, part.index, grain, work);
  const Range mine = share(total, part, grain);
  if (mine.begin < mine.end) work(mine);
}

// The same, one by one.
template <class Work>
void for_each_own(int total, Part part, Work work) {
  for_each_share(total, part, 1, [&](Range range) {
    for (int i = range.begin; i < range.end; ++i) work(i);
  });
}

}  // namespace lapidary::cpu
