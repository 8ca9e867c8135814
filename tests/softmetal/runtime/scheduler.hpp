// The fibers of a threadgroup and how they wait for each other.
#pragma once

#include "shim/abi.h"

namespace softmetal {

// The stack of a lane that has not begun: it begins its kernel when it goes on.
void* first_stack(const Lane& lane);

// Runs the threadgroup until all of its lanes have returned, beginning with the first lane of simdgroup 0. Lanes that wait
// where they must not are an error.
void run_lanes(Threadgroup& group);

}  // namespace softmetal
