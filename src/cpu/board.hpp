// Who has taken what of a step's work: every thread begins with a share of its own and, when that is done, helps where most is
// left.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <vector>

#include "cpu/kernels.hpp"

namespace lapidary::cpu {

struct Range {
  int begin = 0, end = 0;
};

// The part's share of 0..total, in whole grains (the last may be short): contiguous, decided by the numbers alone.
[[gnu::always_inline]] inline Range share(int total, Part part, int grain = 1) {
  const long grains = (total + grain - 1) / grain;
  const auto at = [&](long index) __attribute__((always_inline)) {
    return static_cast<int>(std::min<long>(total, grains * index / part.count * grain));
  };
  return {at(part.index), at(part.index + 1)};
}

// What of `range` lies in begin..begin + size, counted from `begin`; it may be empty.
inline Range overlap(Range range, int begin, int size) {
  return {std::clamp(range.begin - begin, 0, size), std::clamp(range.end - begin, 0, size)};
}

class Board {
 public:
  explicit Board(int threads) : slots_(static_cast<std::size_t>(threads)) {}

  // Before a thread does anything of a step. Nobody may still be at work on another one.
  void begin(int thread, std::uint32_t step) { slots_[thread].call = std::uint64_t{step} << kCallBits; }

  // Calls work(Range) until all of 0..total is taken. The threads of a step make the same calls in the same order, and none of them
  // builds on what another call of the step computes.
  template <class Work>
  void divide(int total, int thread, int grain, Work work) {
    const std::uint64_t call = slots_[thread].call++;
    assert(slots_[thread].call >> kCallBits == call >> kCallBits && "too many calls in a step");
    const int threads = static_cast<int>(slots_.size());
    const int unit = grain * (1 + total / grain / threads / kMaxUnits);
    const int units = (total + unit - 1) / unit;
    const auto share_of = [&](int owner) { return share(units, {owner, threads}); };
    const auto do_units = [&](Range range) { work(Range{range.begin * unit, std::min(total, range.end * unit)}); };
    for (Range taken{0, 0}; take(thread, call, share_of(thread), true, taken);) do_units(taken);
    for (;;) {
      int victim = 0, most = 0;
      for (int owner = 0; owner < threads; ++owner) {
        const int left = left_of(slots_[owner].taken.load(std::memory_order_relaxed), call, share_of(owner));
        if (left > most) victim = owner, most = left;
      }
      if (most == 0) return;
      Range taken{0, 0};
      if (take(victim, call, share_of(victim), false, taken)) do_units(taken);
    }
  }

 private:
  // How many units of a share are taken, from its front and its back, and in which call. Inlined, since kernels for special
  // instructions divide their work too, and must not leave a copy of this to others. What is there of an earlier step or call
  // is over: nothing is taken yet. What is there of a later call of the step says that all of this one is taken.
  static constexpr int kUnitBits = 12, kCallBits = 8, kMaxUnits = (1 << kUnitBits) - 2;

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> taken{0};  // call, front, back
    std::uint64_t call = 0;               // the thread's next one; its own
  };

  [[gnu::always_inline]] static int left_of(std::uint64_t taken, std::uint64_t call, Range share) {
    const std::uint64_t its_call = taken >> (2 * kUnitBits);
    const int size = share.end - share.begin;
    if (its_call == call) return size - front_of(taken) - back_of(taken);
    return its_call >> kCallBits == call >> kCallBits && its_call > call ? 0 : size;
  }
  [[gnu::always_inline]] static int front_of(std::uint64_t taken) { return static_cast<int>(taken >> kUnitBits & ((1 << kUnitBits) - 1)); }
  [[gnu::always_inline]] static int back_of(std::uint64_t taken) { return static_cast<int>(taken & ((1 << kUnitBits) - 1)); }

  // A quarter of what is left of a share. Its owner takes from the front: its reads go on where they were.
  [[gnu::always_inline]] bool take(int owner, std::uint64_t call, Range share, bool from_front, Range& range) {
    std::atomic<std::uint64_t>& slot = slots_[owner].taken;
    for (std::uint64_t taken = slot.load(std::memory_order_relaxed);;) {
      const int left = left_of(taken, call, share);
      if (left == 0) return false;
      const bool begun = taken >> (2 * kUnitBits) == call;
      int front = begun ? front_of(taken) : 0, back = begun ? back_of(taken) : 0;
      const int count = std::max(1, left / 4);
      (from_front ? front : back) += count;
      const std::uint64_t now = call << (2 * kUnitBits) | static_cast<std::uint64_t>(front << kUnitBits | back);
      if (!slot.compare_exchange_weak(taken, now, std::memory_order_relaxed)) continue;
      const int begin = from_front ? share.begin + front - count : share.end - back;
      range = {begin, begin + count};
      return true;
    }
  }

  std::vector<Slot> slots_;
};

}  // namespace lapidary::cpu
