// How fast this machine reads memory: what decoding is measured against.
#pragma once

#include "link/executor.hpp"

namespace lapidary::cpu {

// The best of a few passes over memory that no cache holds: each thread reads one long stream, or four: processors differ in what they like.
link::ReadLimit measure_read_limit(int threads);

}  // namespace lapidary::cpu
