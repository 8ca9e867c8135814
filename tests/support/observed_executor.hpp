// A backend whose steps a test sees, and may spoil, before anyone else does.
#pragma once

#include <utility>

#include "support/forwarding_executor.hpp"

namespace lapidary::test {

class ObservedExecutor final : public ForwardingExecutor {
 public:
  ObservedExecutor(link::Executor& inner, link::Tap tap) : ForwardingExecutor(inner), tap_(std::move(tap)) {}

  link::RunId submit(link::Play play, std::span<const link::Seat> seats, const link::Watch& watch) override {
    const link::Tap both = [&](const link::StepResult& result) {
      tap_(result);
      if (watch.tap) (*watch.tap)(result);
    };
    link::Watch observed = watch;
    observed.tap = &both;
    return ForwardingExecutor::submit(play, seats, observed);
  }

 private:
  link::Tap tap_;
};

}  // namespace lapidary::test
