#include "cpu/processor.hpp"

#include <algorithm>
#include <vector>

#if defined(__APPLE__)
#include <cstddef>
#include <sys/sysctl.h>
#else
#include <fstream>
#include <iterator>
#endif

namespace lapidary::cpu {
namespace {

// As Linux spells the numbers.
struct Core {
  std::string_view implementer, part, name;
};
constexpr Core kCores[] = {
    {"0x41", "0xd03", "Cortex-A53"},  {"0x41", "0xd05", "Cortex-A55"},  {"0x41", "0xd07", "Cortex-A57"},
    {"0x41", "0xd08", "Cortex-A72"},  {"0x41", "0xd09", "Cortex-A73"},  {"0x41", "0xd0a", "Cortex-A75"},
    {"0x41", "0xd0b", "Cortex-A76"},  {"0x41", "0xd0d", "Cortex-A77"},  {"0x41", "0xd41", "Cortex-A78"},
    {"0x41", "0xd44", "Cortex-X1"},   {"0x41", "0xd48", "Cortex-X2"},   {"0x41", "0xd0c", "Neoverse-N1"},
    {"0x41", "0xd49", "Neoverse-N2"}, {"0x41", "0xd40", "Neoverse-V1"}, {"0x41", "0xd4f", "Neoverse-V2"},
    {"0xc0", "0xac3", "Ampere-1"},
};

std::string name_of_core(std::string_view implementer, std::string_view part) {
  for (const Core& core : kCores)
    if (core.implementer == implementer && core.part == part) return std::string(core.name);
  return "implementer " + std::string(implementer) + " part " + std::string(part);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

}  // namespace

std::string processor_name_in(std::string_view cpuinfo) {
  std::vector<std::string> cores;  // one of each kind
  std::string_view implementer;
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    cpuinfo.remove_prefix(std::min(line.size() + 1, cpuinfo.size()));
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string_view key = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (key == "model name") return std::string(value);
    if (key == "CPU implementer") implementer = value;
    if (key != "CPU part") continue;
    std::string name = name_of_core(implementer, value);
    if (std::ranges::find(cores, name) == cores.end()) cores.push_back(std::move(name));
  }
  std::string all;
  for (const std::string& name : cores) all += (all.empty() ? "" : " and ") + name;
  return all.empty() ? "unknown processor" : all;
}

#if defined(__APPLE__)

std::string processor_name() {
  char name[256];
  std::size_t size = sizeof name;
  return sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0 ? name : "unknown processor";
}

#else

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  return processor_name_in(std::string(std::istreambuf_iterator<char>(file), {}));
}

#endif

}  // namespace lapidary::cpu
