// How fast the device reads memory: what decoding is measured against.
#pragma once

#include "metal/gpu.hpp"

namespace lapidary::metal {

// Reads so much memory at `in` once, in uint4 [layout::kReadStreams][groups][pieces]; params is a layout::Step whose k is
// the pieces, out gets the sums of the words, uint [groups][kReadSums].
inline constexpr int kReadSums = 8;
Dispatch read_memory(const Slice& params, const Slice& in, const Slice& out, int groups);

// Bytes per second, the best of a few passes over memory that no cache holds.
double measure_read_limit(Gpu& gpu);

}  // namespace lapidary::metal
