#include "cpu/team.hpp"

#include <algorithm>
#include <cassert>

#if defined(__linux__)
#include <sched.h>
#endif

namespace lapidary::cpu {
namespace {

// The steps of a round are microseconds apart, so a waiting thread looks for a while, lets others run for a while, and only then
// sleeps. Where there are more threads than cores, the one that is waited for may need this one's core.
constexpr int kSpins = 500, kYields = 200;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

#if defined(__linux__)

int current_core() { return sched_getcpu(); }

// Moves the calling thread to the core `distance` after `home` among those it may use, and lets it go again at once.
void move_away(int home, int distance) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) <= distance) return;
  int core = home;
  for (int i = 0; i < distance; ++i)
    do core = (core + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(core, &allowed));
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

#else

int current_core() { return -1; }
void move_away(int, int) {}

#endif

}  // namespace

void Barrier::wait() {
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  for (int spin = 0; spin < kSpins; ++spin) {
    if (phase_.load(std::memory_order_acquire) != phase) return;
    pause();
  }
  for (int turn = 0; turn < kYields; ++turn) {
    if (phase_.load(std::memory_order_acquire) != phase) return;
    std::this_thread::yield();
  }
  phase_.wait(phase, std::memory_order_acquire);
}

Team::Team(int threads) : size_(threads), barrier_(threads), cores_(static_cast<std::size_t>(threads)) {
  assert(threads >= 1);
  for (int index = 1; index < threads; ++index) workers_.emplace_back([this, index] { work(index); });
}

Team::~Team() {
  call_ = nullptr;
  sync();
  for (std::thread& worker : workers_) worker.join();
}

void Team::work(int index) {
  for (;;) {
    sync();
    if (!call_) return;
    keep_apart(index);
    call_(function_, Part{index, size_});
    sync();
  }
}

// The system likes to wake a thread on the core of the one that woke it. There both would share a core, each looking for the other,
// until the system notices, many rounds later.
void Team::keep_apart(int index) {
  const int core = current_core(), home = cores_[0].load(std::memory_order_relaxed);
  cores_[index].store(core, std::memory_order_relaxed);
  const auto is_here = [core](const std::atomic<int>& other) { return other.load(std::memory_order_relaxed) == core; };
  if (core >= 0 && std::any_of(cores_.begin(), cores_.begin() + index, is_here)) move_away(home, index);
}

void Team::begin() {
  cores_[0].store(current_core(), std::memory_order_relaxed);
  sync();
}

}  // namespace lapidary::cpu
