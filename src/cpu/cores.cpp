#include "cpu/cores.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace lapidary::cpu {
namespace {

constexpr std::size_t kMaxBytes = 1 << 14;  // of a file; what comes after them is not read

// Empty where there is none.
std::string text_of(const std::string& path) {
  std::string text(kMaxBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// What comes before the next `end`; it and the end are taken off the text.
std::string_view take(std::string_view& text, char end) {
  const std::size_t size = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, size);
  text.remove_prefix(std::min(size + 1, text.size()));
  return taken;
}

std::optional<std::int64_t> number(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Is one of the processors below `processor` in a list such as "0-1,64"?
bool comes_later(int processor, std::span<const int> processors, std::string_view siblings) {
  while (!siblings.empty()) {
    std::string_view range = take(siblings, ',');
    const auto first = number(take(range, '-'));
    const auto last = range.empty() ? first : number(range);
    if (!first || !last) continue;
    const auto found = std::lower_bound(processors.begin(), processors.end(), *first);
    if (found != processors.end() && *found <= *last && *found < processor) return true;
  }
  return false;
}

// Processor time in whole cores, rounded up; without a limit the most there are.
int cores_of(std::string_view quota, std::string_view period) {
  const auto granted = number(quota), of = number(period);
  if (!granted || !of || *granted < 0 || *of <= 0) return kMaxThreads;  // "max", and -1 before it
  return static_cast<int>(std::clamp<std::int64_t>((*granted - 1) / *of + 1, 1, kMaxThreads));
}

// The least that a group at `path` or one above it grants. In a container the path may be the host's, which is not to be seen
// there; the group at the mount is the container's own then.
template <class CoresAt>
int least_cores(const std::string& mount, std::string_view path, CoresAt cores_at) {
  int least = cores_at(mount);
  for (; path.starts_with('/'); path = path.substr(0, path.rfind('/')))
    least = std::min(least, cores_at(mount + std::string(path)));
  return least;
}

int quota_cores(const std::string& root) {
  const auto unified = [](const std::string& folder) {
    const std::string text = text_of(folder + "/cpu.max");  // "50000 100000"
    std::string_view period = text;
    const std::string_view quota = take(period, ' ');
    return cores_of(quota, period);
  };
  const auto version_1 = [](const std::string& folder) {
    return cores_of(text_of(folder + "/cpu.cfs_quota_us"), text_of(folder + "/cpu.cfs_period_us"));
  };
  const std::string groups = text_of(root + "/proc/self/cgroup");
  int least = kMaxThreads;
  for (std::string_view lines = groups; !lines.empty();) {
    std::string_view path = take(lines, '\n');  // "4:cpu,cpuacct:/a/b", of version 2 "0::/a/b"
    take(path, ':');
    std::string_view controllers = take(path, ':');
    if (controllers.empty()) least = std::min(least, least_cores(root + "/sys/fs/cgroup", path, unified));
    while (!controllers.empty())
      if (take(controllers, ',') == "cpu") least = std::min(least, least_cores(root + "/sys/fs/cgroup/cpu", path, version_1));
  }
  return least;
}

#if defined(__linux__)

// Those that the calling thread may run on. The system wants room for all that it could ever have.
std::vector<int> own_processors() {
  for (std::size_t sets = 1; sets <= 64; sets *= 2) {
    std::vector<cpu_set_t> allowed(sets);
    const std::size_t bytes = sets * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, allowed.data()) != 0) continue;
    std::vector<int> processors;
    for (std::size_t i = 0; i < sets * CPU_SETSIZE; ++i)
      if (CPU_ISSET_S(i, bytes, allowed.data())) processors.push_back(static_cast<int>(i));
    return processors;
  }
  return {};
}

#endif

std::string folder_of(int processor, const std::string& root) { return root + "/sys/devices/system/cpu/cpu" + std::to_string(processor); }

}  // namespace

int threads_for(std::span<const int> processors, const std::string& root) {
  const auto cores = std::count_if(processors.begin(), processors.end(), [&](int processor) {
    return !comes_later(processor, processors, text_of(folder_of(processor, root) + "/topology/thread_siblings_list"));
  });
  return std::max(1, std::min(static_cast<int>(cores), quota_cores(root)));
}

int default_threads() {
#if defined(__linux__)
  const std::vector<int> processors = own_processors();
  if (!processors.empty()) return threads_for(processors, "");
#elif defined(__APPLE__)
  for (const char* name : {"hw.perflevel0.physicalcpu", "hw.physicalcpu"}) {  // performance cores where there are two kinds
    int cores = 0;
    std::size_t size = sizeof cores;
    if (sysctlbyname(name, &cores, &size, nullptr, 0) == 0 && cores > 0) return std::min(cores, kMaxThreads);
  }
#endif
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

std::size_t last_cache_bytes(std::span<const int> processors, const std::string& root) {
  std::size_t bytes = 0;
  for (const int processor : processors) {
    std::optional<std::int64_t> kib;
    std::string last;
    for (int index = 0;; ++index) {
      const std::string cache = folder_of(processor, root) + "/cache/index" + std::to_string(index), size = text_of(cache + "/size");
      std::string_view text = size;  // "36608K"
      if (text.empty()) break;
      kib = number(take(text, 'K'));
      last = cache;
    }
    if (kib && *kib > 0 && !comes_later(processor, processors, text_of(last + "/shared_cpu_list"))) bytes += static_cast<std::size_t>(*kib) << 10;
  }
  return bytes;
}

std::size_t last_cache_bytes() {
#if defined(__linux__)
  return last_cache_bytes(own_processors(), "");
#else
  return 0;
#endif
}

}  // namespace lapidary::cpu
