// Whether tests of whole models do fewer tokens: the software device is slow. With LAPIDARY_FULL in the environment they do all.
#pragma once

#include <cstdlib>

#include "link/backend.hpp"

namespace lapidary::test {

inline bool is_slow_device() { return link::backends().front()->name != "cpu" && !std::getenv("LAPIDARY_FULL"); }

}  // namespace lapidary::test
