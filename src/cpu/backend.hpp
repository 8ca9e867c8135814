// The CPU's row in the table of backends.
#pragma once

#include "link/backend.hpp"

namespace lapidary::cpu {

extern const link::Backend kBackend;

}  // namespace lapidary::cpu
