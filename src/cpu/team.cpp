#include "cpu/team.hpp"

#include <cassert>

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

Team::Team(int threads) : size_(threads), barrier_(threads) {
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
    call_(function_, Part{index, size_});
    sync();
  }
}

}  // namespace lapidary::cpu
