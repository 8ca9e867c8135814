// A team of threads that run the same function, each with its Part.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "cpu/kernels.hpp"

namespace lapidary::cpu {

// Everyone waits until `count` threads have come, again and again. What a thread wrote before is seen by all after.
class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}
  void wait();

 private:
  const int count_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};
};

// One caller at a time.
class Team {
 public:
  explicit Team(int threads);  // the caller included
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  // Calls f(Part) on every thread, the caller being part 0; returns when all are done. f must not throw.
  template <class F>
  void run(F&& f) {
    using Function = std::remove_reference_t<F>;
    call_ = [](void* function, Part part) { (*static_cast<Function*>(function))(part); };
    function_ = const_cast<void*>(static_cast<const void*>(&f));
    begin();
    f(Part{0, size_});
    sync();
  }

  // Inside f, between steps: every thread must come.
  void sync() { barrier_.wait(); }

 private:
  void begin();
  void work(int index);
  void keep_apart(int index);

  const int size_;
  Barrier barrier_;
  void (*call_)(void* function, Part part) = nullptr;  // null: go home
  void* function_ = nullptr;
  std::vector<std::atomic<int>> cores_;  // by thread: where it was last
  std::vector<std::thread> workers_;
};

}  // namespace lapidary::cpu
