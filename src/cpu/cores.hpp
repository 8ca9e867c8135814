// How many threads compute.
#pragma once

#include <span>
#include <string>

namespace lapidary::cpu {

inline constexpr int kMaxThreads = 256;

// One thread for each core that the process may run on, or fewer where the quotas of its cgroups do not pay for them. Of
// hyperthreads one counts: a thread that computes leaves little of a core to the other.
int default_threads();

// The same for given processors, ascending, on a Linux whose files begin at `root`.
int threads_for(std::span<const int> processors, const std::string& root);

}  // namespace lapidary::cpu
