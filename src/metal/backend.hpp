// Metal's row in the table of backends.
#pragma once

#include "link/backend.hpp"

namespace lapidary::metal {

extern const link::Backend kBackend;

}  // namespace lapidary::metal
