// Says what a kernel did when it touches memory that it must not: the page behind a buffer, or the one under its stack.
#pragma once

#include "shim/abi.h"

namespace softmetal {

// Lets the handler run when the stack of a fiber is used up; for each thread that runs threadgroups.
void use_fault_stack();

// The threadgroup that this thread runs, while it lives.
class RunningGroup {
 public:
  explicit RunningGroup(const Threadgroup& group);
  ~RunningGroup();
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;
};

}  // namespace softmetal
