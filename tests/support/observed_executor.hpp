// A backend whose steps a test sees, and may spoil, before anyone else does.
#pragma once

#include <utility>

#include "support/forwarding_executor.hpp"

namespace lapidary::test {

class ObservedExecutor final : public ForwardingExecutor {
 public:
  ObservedExecutor(link::Executor& inner, link::Tap tap) : ForwardingExecutor(inner), tap_(std::move(tap)) {}

  bool run(std::span<const graph::SegmentId> segments, const link::Run& run) override {
    const link::Tap both = [&](const link::StepResult& result) {
      tap_(result);
      if (run.tap) (*run.tap)(result);
    };
    link::Run observed = run;
    observed.tap = &both;
    return ForwardingExecutor::run(segments, observed);
  }

 private:
  link::Tap tap_;
};

}  // namespace lapidary::test
