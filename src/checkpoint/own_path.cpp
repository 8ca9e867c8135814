#include "checkpoint/own_path.hpp"

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif

namespace lapidary {

std::filesystem::path own_path() {
  std::error_code none;
#if defined(__APPLE__)
  char path[4096];
  std::uint32_t size = sizeof path;
  return _NSGetExecutablePath(path, &size) == 0 ? std::filesystem::canonical(path, none) : std::filesystem::path();
#else
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", none);
  if (!own.empty()) return own;
  // A system without /proc still says what was executed.
  const auto* executed = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return executed ? std::filesystem::canonical(executed, none) : std::filesystem::path();
#endif
}

}  // namespace lapidary
