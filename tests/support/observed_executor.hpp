// A backend whose steps a test sees, and may spoil, before anyone else does.
#pragma once

#include <utility>

#include "link/forwarding_executor.hpp"

namespace lapidary::test {

class ObservedExecutor final : public link::ForwardingExecutor {
 public:
  ObservedExecutor(link::Executor& inner, link::StepObserver observe) : ForwardingExecutor(inner), observe_(std::move(observe)) {}

  link::RunId submit(link::Play play, std::span<const link::Seat> seats, const link::Watch& watch) override {
    const link::StepObserver both = [&](const link::StepResult& result) {
      observe_(result);
      if (watch.observe) (*watch.observe)(result);
    };
    link::Watch observed = watch;
    observed.observe = &both;
    return ForwardingExecutor::submit(play, seats, observed);
  }

 private:
  link::StepObserver observe_;
};

}  // namespace lapidary::test
