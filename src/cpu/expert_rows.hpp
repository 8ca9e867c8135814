// The rows that picked the same expert, brought together.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <compare>
#include <span>

#include "cpu/share.hpp"

namespace lapidary::cpu {

// One row's use of one expert.
struct Pick {
  std::int32_t expert, row, slot;
  auto operator<=>(const Pick&) const = default;
};

inline constexpr int kMaxPicks = 2048;  // 24 KiB of stack

// Calls work(picks) with the picks of as many rows as fit, by expert, then row.
template <class Work>
void for_each_batch(int rows, InIds ids, int used, [[maybe_unused]] int experts, Work work) {
  assert(used > 0 && used <= kMaxPicks);
  const int rows_at_once = kMaxPicks / used;
  for (int first = 0; first < rows; first += rows_at_once) {
    std::array<Pick, kMaxPicks> picks;
    std::size_t count = 0;
    for (int row = first; row < std::min(rows, first + rows_at_once); ++row) {
      for (int slot = 0; slot < used; ++slot) {
        const std::int32_t expert = ids[row][slot];
        assert(expert >= 0 && expert < experts);
        picks[count++] = {expert, row, slot};
      }
    }
    std::sort(picks.begin(), picks.begin() + count);
    work(std::span<const Pick>(picks).first(count));
  }
}

// Calls work(picks) with at most `most` picks of one expert at a time.
template <class Work>
void for_each_group(std::span<const Pick> picks, std::size_t most, Work work) {
  for (std::size_t i = 0; i < picks.size();) {
    std::size_t count = 1;
    while (i + count < picks.size() && count < most && picks[i + count].expert == picks[i].expert) ++count;
    work(picks.subspan(i, count));
    i += count;
  }
}

// Calls work(picks, range) with at most `most` picks of one expert and ranges of 0..size in whole grains, so that the threads share
// the sizes of all experts in use, most of them whole.
template <class Work>
void for_each_expert_share(int rows, InIds ids, int used, int experts, std::size_t most, int size, int grain, Part part,
                           Work work) {
  const int grains = (size + grain - 1) / grain;
  for_each_batch(rows, ids, used, experts, [&](std::span<const Pick> picks) {
    int groups = 0;
    for_each_group(picks, most, [&](std::span<const Pick>) { ++groups; });
    for_each_share(groups * grains, part, 1, [&](Range mine) {
      int begin = 0;  // of the group's grains among all
      for_each_group(picks, most, [&](std::span<const Pick> same) {
        const Range its = overlap(mine, begin, grains);
        if (its.begin < its.end) work(same, Range{its.begin * grain, std::min(size, its.end * grain)});
        begin += grains;
      });
    });
  });
}

}  // namespace lapidary::cpu
