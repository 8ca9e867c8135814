// A team of threads that go through the steps of a run together.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <latch>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/board.hpp"
#include "cpu/kernels.hpp"

namespace lapidary::cpu {

// Everyone waits until `count` threads have come, again and again. What a thread wrote before is seen by all after.
class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}
  void wait();
  void give_up();  // somebody will not come any more: nobody waits
  void mend();     // between runs, after that

 private:
  static constexpr std::uint32_t kGivenUp = 1, kPhase = 2;
  const int count_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};
};

// Who does a step of a run.
enum class Turn {
  end,       // nobody: the run is over
  shared,    // whoever is there, by for_each_share. A thread without a core is not waited for, unless it has lost it amid its work
  everyone,  // every thread its fixed share
};

// One caller at a time.
class Team {
 public:
  // The caller included. Throws Error when the system refuses one. pin: every thread but the caller's is on a core of its own, where
  // there are enough, from the first run on.
  explicit Team(int threads, bool pin = false);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  // Plays a run: next() prepares a step and says whose turn it is, work(Part) does it, then comes next() again until it says `end`.
  // next() has all to itself: the last thread that is done with a step calls it while the others wait or are elsewhere. What is
  // written in one is seen in the other, on all threads. The caller is part 0. What either throws ends the run, and run() throws it;
  // of several that are thrown at once, one.
  template <class Next, class Work>
  void run(Next&& next, Work&& work) {
    next_ = {[](void* function) { return (*static_cast<std::remove_reference_t<Next>*>(function))(); }, address_of(next)};
    work_ = {[](void* function, Part part) { (*static_cast<std::remove_reference_t<Work>*>(function))(part); }, address_of(work)};
    play();
  }

  // Calls work(Part) on every thread; returns when all are done.
  template <class Work>
  void run(Work&& work) {
    bool begun = false;
    run([&] { return std::exchange(begun, true) ? Turn::end : Turn::everyone; }, work);
  }

  // Inside a step for everyone: every thread must come.
  void sync() { barrier_.wait(); }

 private:
  // A step's number and what kind it is: what waiting threads look at.
  class Sign {
   public:
    static constexpr std::uint32_t kEveryone = 1, kIdle = 2, kQuit = 4, kStep = 8;
    Sign(std::uint32_t bits) : bits_(bits) {}
    std::uint32_t bits() const { return bits_; }
    bool is(std::uint32_t kind) const { return (bits_ & kind) != 0; }
    Sign next(std::uint32_t kind) const { return bits_ / kStep * kStep + kStep + kind; }
    bool operator==(const Sign&) const = default;

   private:
    std::uint32_t bits_;
  };
  // The step that is on, how many threads are present, and how many of these have left it: it is over when all have, or, if it is
  // for everyone, as many as there are. Threads that look for the next step are present. Those that sleep are not: nobody waits for
  // them.
  class State {
   public:
    static constexpr std::uint64_t kPresent = 1, kLeft = 1 << 16;  // one thread
    State(std::uint64_t bits) : bits_(bits) {}
    State(Sign sign, std::uint64_t present, std::uint64_t left)
        : bits_(std::uint64_t{sign.bits()} << 32 | left * kLeft | present * kPresent) {}

    std::uint64_t bits() const { return bits_; }
    Sign sign() const { return static_cast<std::uint32_t>(bits_ >> 32); }
    std::uint64_t present() const { return bits_ % kLeft; }
    bool is_over(int threads) const {
      return (bits_ >> 16) % kLeft == (sign().is(Sign::kEveryone) ? static_cast<std::uint64_t>(threads) : present());
    }
    std::uint64_t waiting() const { return kPresent + (sign().is(Sign::kEveryone) ? 0 : kLeft); }  // one that has left
    State next(std::uint32_t kind) const {
      return {sign().next(kind), present(), (kind & Sign::kIdle) != 0 ? present() : 0};
    }

   private:
    std::uint64_t bits_;
  };
  template <class Result, class... Arguments>
  struct Function {
    Result (*call)(void* function, Arguments...) = nullptr;
    void* function = nullptr;
    Result operator()(Arguments... arguments) const { return call(function, arguments...); }
  };
  template <class F>
  static void* address_of(F& f) {
    return const_cast<void*>(static_cast<const void*>(&f));
  }

  void play();
  void dismiss();
  void serve(int index);
  Turn next();
  void work(Part part);
  void keep_failure();
  Sign follow(int index, Sign sign);
  Sign await(Sign sign, int index);
  bool go(Sign sign);
  State come();
  bool is_in(State state) const;
  Sign open(Turn turn);
  Sign open(std::uint32_t kind);
  void keep_apart(int index);

  const int size_;
  const bool pinned_;
  Function<Turn> next_;
  Function<void, Part> work_;
  Board board_;
  Barrier barrier_;
  std::latch begun_;                 // threads that have not
  std::atomic<bool> failed_{false};  // something was thrown in this run: no further step begins
  std::exception_ptr failure_;       // written by who set it, read when the run is over
  alignas(64) std::atomic<std::uint64_t> state_{State(Sign::kIdle, 1, 1).bits()};  // the caller is present
  alignas(64) std::atomic<std::uint32_t> sign_{Sign::kIdle};                        // of the state, a moment later
  std::vector<std::atomic<int>> cores_;  // by thread: where it was last
  std::vector<std::thread> workers_;
};

}  // namespace lapidary::cpu
