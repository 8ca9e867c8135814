// How fast this machine reads memory: what decoding is measured against.
#pragma once

namespace lapidary::cpu {

// Bytes per second, the best of a few passes over memory that no cache holds: each thread reads four long streams.
double measure_read_limit(int threads);

}  // namespace lapidary::cpu
