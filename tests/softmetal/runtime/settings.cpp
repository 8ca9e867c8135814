#include "runtime/settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <execinfo.h>
#include <thread>
#include <unistd.h>

namespace softmetal {
namespace {

std::string text(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? std::strtoull(value, nullptr, 10) : otherwise;
}

Settings from_environment() {
  Settings settings;
  settings.seed = number("SOFTMETAL_SEED", 0);
  settings.check = number("SOFTMETAL_CHECK", 0) != 0;
  settings.zombies = number("SOFTMETAL_ZOMBIES", 0) != 0;
  settings.report = number("SOFTMETAL_REPORT", 0) != 0;
  const unsigned cores = std::thread::hardware_concurrency();
  // The checker sees one thread at a time.
  settings.threads = settings.check ? 1 : static_cast<int>(number("SOFTMETAL_THREADS", cores > 0 ? cores : 1));
  settings.max_threads = number("SOFTMETAL_MAX_THREADS", 1024);
  settings.family = static_cast<int>(number("SOFTMETAL_FAMILY", 9));
  settings.page_bytes = number("SOFTMETAL_PAGE", static_cast<std::uint64_t>(::getpagesize()));
  settings.cache = text("SOFTMETAL_CACHE", SOFTMETAL_DEFAULT_CACHE);
  settings.compiler = text("SOFTMETAL_CXX", "clang++-19");
  settings.compiler_flags = text("SOFTMETAL_CXXFLAGS", "");
  return settings;
}

}  // namespace

const Settings& settings() {
  static const Settings* const one = new Settings(from_environment());
  return *one;
}

void fail_kernel(const std::string& what) {
  std::fprintf(stderr, "softmetal: %s\n", what.c_str());
  std::abort();
}

void fail(const std::string& what) {
  std::fprintf(stderr, "softmetal: %s\n", what.c_str());
  void* calls[32];
  ::backtrace_symbols_fd(calls, ::backtrace(calls, 32), STDERR_FILENO);
  std::abort();
}

}  // namespace softmetal
