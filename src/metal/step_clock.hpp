// When each step was at work on the device.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "metal/gpu.hpp"

namespace lapidary::metal {

struct Seconds {
  double begin = 0, end = 0;
};

// What is timed: commands for an encoder of their own.
struct TimedPiece {
  std::string label;
  std::function<void(MTL::ComputeCommandEncoder*)> encode;
};

// Apple's GPUs take the time where an encoder begins and ends. Where the device has no such clock, or one that says nothing
// (macOS 26 is reported to leave it at 0), every piece gets a command buffer of its own and has its time.
class StepClock {
 public:
  // `probe` may run any number of times; it shows whether the clock can be trusted.
  StepClock(Gpu& gpu, const TimedPiece& probe);

  // Runs the pieces one after the other and waits for them.
  std::vector<Seconds> run(const std::vector<TimedPiece>& pieces) const;

 private:
  std::vector<Seconds> run_by_clock(std::span<const TimedPiece> pieces) const;  // empty when the clock says nothing

  Gpu& gpu_;
  Owned<MTL::CounterSet> clock_;
};

}  // namespace lapidary::metal
