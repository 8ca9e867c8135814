// What the system says of the processors: how many threads compute, how large their caches are.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lapidary::cpu {

inline constexpr int kMaxThreads = 256;

// One thread for each core that the process may run on, or fewer where the quotas of its cgroups do not pay for them. Of
// hyperthreads one counts: a thread that computes leaves little of a core to the other.
int default_threads();

// The same for given processors, ascending, on a Linux whose files begin at `root`.
int threads_for(std::span<const int> processors, const std::string& root);

// Of the last caches on the way to memory, all that these processors have; 0 where the system does not say.
std::size_t last_cache_bytes();
std::size_t last_cache_bytes(std::span<const int> processors, const std::string& root);

}  // namespace lapidary::cpu
