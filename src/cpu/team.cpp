#include "cpu/team.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <system_error>

#if defined(__linux__)
#include <sched.h>
#endif

#include "checkpoint/error.hpp"

namespace lapidary::cpu {
namespace {

// The steps of a round are microseconds apart, so a waiting thread looks for a while before it sleeps. It never yields: beside a
// busy neighbour that costs the core for milliseconds.
constexpr int kSpins = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

#if defined(__linux__)

int current_core() { return sched_getcpu(); }

// Moves the calling thread to the next core after `core` that it may use and is_free, and lets it go again at once.
template <class IsFree>
void move_away(int core, IsFree is_free) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int i = 1; i < CPU_SETSIZE; ++i) {
    const int other = (core + i) % CPU_SETSIZE;
    if (!CPU_ISSET(other, &allowed) || !is_free(other)) continue;
    CPU_ZERO(&one);
    CPU_SET(other, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
    return;
  }
}

// Keeps the calling thread on the core that is number `index` of those it may use.
void pin_to(int index) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || index-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

#else

int current_core() { return -1; }
void pin_to(int) {}
template <class IsFree>
void move_away(int, IsFree) {}

#endif

}  // namespace

void Barrier::wait() {
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (phase & kGivenUp) return;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + kPhase, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  for (int spin = 0; spin < kSpins; ++spin) {
    if (phase_.load(std::memory_order_acquire) != phase) return;
    pause();
  }
  phase_.wait(phase, std::memory_order_acquire);
}

// Who gives up has not come, so no phase ends meanwhile.
void Barrier::give_up() {
  phase_.fetch_or(kGivenUp, std::memory_order_release);
  phase_.notify_all();
}

void Barrier::mend() {
  arrived_.store(0, std::memory_order_relaxed);
  phase_.fetch_and(~kGivenUp, std::memory_order_release);
}

Team::Team(int threads, bool pin) : size_(threads), pinned_(pin), board_(threads), barrier_(threads), begun_(threads - 1), cores_(static_cast<std::size_t>(threads)) {
  assert(threads >= 1 && threads < static_cast<int>(State::kLeft));
  workers_.reserve(static_cast<std::size_t>(threads) - 1);
  try {
    for (int index = 1; index < threads; ++index) workers_.emplace_back([this, index] {
      if (pinned_) pin_to(index);
      begun_.count_down();
      serve(index);
    });
  } catch (const std::system_error& error) {
    dismiss();
    fail(ErrorKind::out_of_memory, "threads", "expected " + std::to_string(threads) + ", got " +
                                                  std::to_string(workers_.size() + 1) + ": " + error.code().message());
  }
  if (pinned_) begun_.wait();
}

Team::~Team() { dismiss(); }

void Team::dismiss() {
  open(Sign::kIdle | Sign::kQuit);
  for (std::thread& worker : workers_) worker.join();
}

void Team::play() {
  cores_[0].store(current_core(), std::memory_order_relaxed);
  const Turn turn = next();
  if (turn != Turn::end) follow(0, open(turn));
  if (!failed_.load(std::memory_order_acquire)) return;
  barrier_.mend();
  failed_.store(false, std::memory_order_relaxed);
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

// A step in which something was thrown is the last one.
Turn Team::next() {
  if (failed_.load(std::memory_order_relaxed)) return Turn::end;
  try {
    return next_();
  } catch (...) {
    keep_failure();
    return Turn::end;
  }
}

void Team::work(Part part) {
  try {
    work_(part);
  } catch (...) {
    keep_failure();
    barrier_.give_up();
  }
}

void Team::keep_failure() {
  if (!failed_.exchange(true, std::memory_order_relaxed)) failure_ = std::current_exception();
}

void Team::serve(int index) {
  const State state = come();
  for (Sign sign = is_in(state) ? state.sign() : await(state.sign(), index); !sign.is(Sign::kQuit);)
    sign = sign.is(Sign::kIdle) ? await(sign, index) : follow(index, sign);
}

// From a step that the thread is in to the end of the run.
Team::Sign Team::follow(int index, Sign sign) {
  while (!sign.is(Sign::kIdle)) {
    board_.begin(index, sign.bits());
    work(Part{index, size_, sign.is(Sign::kEveryone) || size_ == 1 ? nullptr : &board_});
    const State left = state_.fetch_add(State::kLeft, std::memory_order_acq_rel) + State::kLeft;
    sign = left.is_over(size_) ? open(next()) : await(sign, index);
  }
  return sign;
}

Team::Sign Team::open(Turn turn) {
  return open(turn == Turn::end ? Sign::kIdle : turn == Turn::everyone ? Sign::kEveryone : 0);
}

// Begins what comes after the step that is over, with all that are present.
Team::Sign Team::open(std::uint32_t kind) {
  std::uint64_t bits = state_.load(std::memory_order_acquire);
  while (sign_.load(std::memory_order_acquire) != State(bits).sign().bits()) pause();  // the end of a run is seen before its sign
  while (!state_.compare_exchange_weak(bits, State(bits).next(kind).bits(), std::memory_order_acq_rel)) {}
  const State state = State(bits).next(kind);
  sign_.store(state.sign().bits(), std::memory_order_release);
  if (static_cast<int>(state.present()) < size_) sign_.notify_all();
  return state.sign();
}

// Waits until the step that the thread has left is no longer on: it is in the next one then.
Team::Sign Team::await(Sign sign, int index) {
  for (;;) {
    for (int spin = 0; spin < kSpins; ++spin) {
      const Sign now = sign_.load(std::memory_order_acquire);
      if (now != sign) return now;
      pause();
    }
    if (!go(sign)) continue;
    sign_.wait(sign.bits(), std::memory_order_acquire);
    if (index > 0 && !pinned_) keep_apart(index);
    const State state = come();
    if (is_in(state)) return state.sign();
    sign = state.sign();
  }
}

// A thread that has left the step is no longer present. False: the next one has begun, and it is in that.
bool Team::go(Sign sign) {
  std::uint64_t bits = state_.load(std::memory_order_relaxed);
  while (State(bits).sign() == sign)
    if (state_.compare_exchange_weak(bits, bits - State(bits).waiting(), std::memory_order_acq_rel)) return true;
  return false;
}

// A thread that was elsewhere is present: in the step that is on or, if that is over, waiting for the next one.
Team::State Team::come() {
  for (;; pause()) {
    std::uint64_t bits = state_.load(std::memory_order_acquire);
    const State state = bits;
    if (sign_.load(std::memory_order_acquire) != state.sign().bits()) continue;
    const std::uint64_t one = state.is_over(size_) ? state.waiting() : State::kPresent;
    if (state_.compare_exchange_weak(bits, bits + one, std::memory_order_acq_rel)) return state;
  }
}

bool Team::is_in(State state) const { return state.sign().is(Sign::kIdle) || !state.is_over(size_); }

// The system likes to wake a thread on the core of the one that woke it. There both would share a core until the system notices,
// many rounds later.
void Team::keep_apart(int index) {
  const int core = current_core();
  cores_[index].store(core, std::memory_order_relaxed);
  const auto is_free = [&](int one) {
    return std::none_of(cores_.begin(), cores_.end(), [&](const std::atomic<int>& other) {
      return &other != &cores_[index] && other.load(std::memory_order_relaxed) == one;
    });
  };
  if (core < 0 || is_free(core)) return;
  move_away(core, is_free);
  cores_[index].store(current_core(), std::memory_order_relaxed);
}

}  // namespace lapidary::cpu
