// A backend that takes a round before the one before it has been awaited, also where the one behind it would not: then that
// round is done at once.
#pragma once

#include "link/forwarding_executor.hpp"

namespace lapidary::test {

class AheadExecutor final : public link::ForwardingExecutor {
 public:
  using ForwardingExecutor::ForwardingExecutor;

  bool runs_ahead() const override { return true; }
};

}  // namespace lapidary::test
