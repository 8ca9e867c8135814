#include "runtime/executor.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "runtime/faults.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/settings.hpp"

namespace softmetal {
namespace {

std::atomic<std::uint64_t> group_count{0};

// What one thread of the host needs to run threadgroups: a stack for each lane, threadgroup memory.
class Worker {
 public:
  explicit Worker(std::uint64_t seed)
      : simdgroups_(kMaxThreads / kSimdWidth), shuffled_(settings().seed != 0), random_(seed) {
    constexpr std::size_t kBytes = static_cast<std::size_t>(kStackBytes) * (kMaxThreads + 1);
    const auto begin = reinterpret_cast<std::uintptr_t>(reserve(kBytes));
    stacks_ = (begin + kStackBytes - 1) & ~std::uintptr_t{kStackBytes - 1};
    memory_ = static_cast<char*>(reserve(2 * kThreadgroupBytes));
    use_fault_stack();
  }

  void run(const Dispatch& dispatch, std::uint64_t number) {
    const std::uint64_t plane = static_cast<std::uint64_t>(dispatch.groups[0]) * dispatch.groups[1];
    Threadgroup group{};
    group.dispatch = &dispatch;
    group.position[0] = static_cast<std::uint32_t>(number % dispatch.groups[0]);
    group.position[1] = static_cast<std::uint32_t>(number % plane / dispatch.groups[0]);
    group.position[2] = static_cast<std::uint32_t>(number / plane);
    group.simdgroup = simdgroups_.data();
    group.memory = memory_;
    group.number = ++group_count;
    for (int i = 0; i < kMaxThreadgroupArguments; ++i) {
      if (dispatch.threadgroup_bytes[i] == 0) continue;
      group.argument[i] = memory_ + group.memory_used;
      std::memset(group.argument[i], 0xff, dispatch.threadgroup_bytes[i]);
      group.memory_used += (dispatch.threadgroup_bytes[i] + 15) & ~15u;
    }
    place_lanes(group);
    const RunningGroup running(group);
    run_lanes(group);
  }

 private:
  static void* reserve(std::size_t bytes) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for the threads of a threadgroup");
    return memory;
  }

  // A stack that overflows meets a page that cannot be touched, not its neighbour.
  void guard_stacks(int count) {
    for (; guarded_ < count; ++guarded_)
      if (::mprotect(reinterpret_cast<void*>(stacks_ + static_cast<std::size_t>(guarded_) * kStackBytes),
                     static_cast<std::size_t>(::getpagesize()), PROT_NONE) != 0)
        fail("no guard page for the stack of a thread: set SOFTMETAL_THREADS lower or the system's max_map_count higher");
  }

  void place_lanes(Threadgroup& group) {
    const Dispatch& dispatch = *group.dispatch;
    // The last threadgroups of a grid given in threads may be smaller.
    std::uint32_t threads[3];
    for (int i = 0; i < 3; ++i)
      threads[i] = std::min(dispatch.threads[i], dispatch.grid[i] - group.position[i] * dispatch.threads[i]);
    const int count = static_cast<int>(threads[0] * threads[1] * threads[2]);
    guard_stacks(count);
    group.simdgroup_count = (count + kSimdWidth - 1) / kSimdWidth;
    int simdgroup_order[kMaxThreads / kSimdWidth];
    shuffle(simdgroup_order, group.simdgroup_count);
    for (int s = 0; s < group.simdgroup_count; ++s) {
      Simdgroup& simdgroup = group.simdgroup[s];
      const int first = simdgroup_order[s] * kSimdWidth;
      simdgroup.lanes = std::min<int>(kSimdWidth, count - first);
      simdgroup.area = 0;
      simdgroup.barriers = 0;
      simdgroup.running = ~0u >> (kSimdWidth - simdgroup.lanes);
      simdgroup.at_simd = simdgroup.at_barrier = simdgroup.returned = 0;
      int lane_order[kSimdWidth];
      shuffle(lane_order, simdgroup.lanes);
      for (int i = 0; i < simdgroup.lanes; ++i) {
        const auto index = static_cast<std::uint32_t>(first + lane_order[i]);
        Lane& lane = *lane_at(stacks_ + static_cast<std::size_t>(index) * kStackBytes);
        simdgroup.lane[i] = &lane;
        lane.group = &group;
        lane.simdgroup = &simdgroup;
        lane.constants = dispatch.constants;
        lane.place = static_cast<std::uint32_t>(i);
        lane.index = index;
        lane.lane = static_cast<std::uint32_t>(lane_order[i]);
        lane.simdgroup_index = static_cast<std::uint32_t>(simdgroup_order[s]);
        lane.position[0] = index % threads[0];
        lane.position[1] = index / threads[0] % threads[1];
        lane.position[2] = index / (threads[0] * threads[1]);
        simdgroup.stack[i] = first_stack(lane);
      }
    }
  }

  void shuffle(int* order, int count) {
    std::iota(order, order + count, 0);
    if (shuffled_) std::shuffle(order, order + count, random_);
  }

  std::uintptr_t stacks_ = 0;
  int guarded_ = 0;
  char* memory_ = nullptr;
  std::vector<Simdgroup> simdgroups_;
  bool shuffled_;
  std::mt19937_64 random_;
};

// The thread that asks takes threadgroups as the others do; they help when there is more than one.
class Team {
 public:
  Team() : own_(settings().seed), random_(settings().seed) {
    for (int i = 1; i < settings().threads; ++i)
      std::thread([this, i] { help(settings().seed * 7919 + static_cast<std::uint64_t>(i)); }).detach();
  }

  void run(const Dispatch& dispatch) {
    const std::uint64_t count = static_cast<std::uint64_t>(dispatch.groups[0]) * dispatch.groups[1] * dispatch.groups[2];
    order_.clear();
    if (settings().seed != 0) {
      order_.resize(count);
      std::iota(order_.begin(), order_.end(), std::uint64_t{0});
      std::shuffle(order_.begin(), order_.end(), random_);
    }
    {
      const std::lock_guard guard(lock_);
      dispatch_ = &dispatch;
      count_ = count;
      next_ = 0;
    }
    if (count > 1) work_.notify_all();
    take_groups(own_, dispatch);
    std::unique_lock guard(lock_);
    dispatch_ = nullptr;
    idle_.wait(guard, [&] { return helping_ == 0; });
  }

 private:
  void take_groups(Worker& worker, const Dispatch& dispatch) {
    for (std::uint64_t i; (i = next_++) < count_;) worker.run(dispatch, order_.empty() ? i : order_[i]);
  }

  [[noreturn]] void help(std::uint64_t seed) {
    Worker worker(seed);
    std::unique_lock guard(lock_);
    while (true) {
      work_.wait(guard, [&] { return dispatch_ && next_ < count_; });
      ++helping_;
      const Dispatch& dispatch = *dispatch_;
      guard.unlock();
      take_groups(worker, dispatch);
      guard.lock();
      if (--helping_ == 0) idle_.notify_all();
    }
  }

  std::mutex lock_;
  std::condition_variable work_, idle_;
  const Dispatch* dispatch_ = nullptr;
  std::vector<std::uint64_t> order_;  // of the threadgroups; empty = as they are numbered
  std::uint64_t count_ = 0;
  std::atomic<std::uint64_t> next_{0};
  int helping_ = 0;
  Worker own_;
  std::mt19937_64 random_;
};

}  // namespace

void execute(const Dispatch& dispatch) {
  static std::mutex one;
  const std::lock_guard guard(one);
  static Team* const team = new Team;  // its threads run until the program ends
  use_fault_stack();
  team->run(dispatch);
}

}  // namespace softmetal
