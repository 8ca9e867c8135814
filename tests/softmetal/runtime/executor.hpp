// Runs dispatches: threadgroups on all cores, each thread of a threadgroup as a fiber.
#pragma once

#include "shim/abi.h"

namespace softmetal {

// One at a time, whichever queue it comes from.
void execute(const Dispatch& dispatch);

}  // namespace softmetal
