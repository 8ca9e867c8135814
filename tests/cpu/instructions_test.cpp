// The table of instruction sets against what the system tells of this processor.
#include "cpu/instructions.hpp"

#include <algorithm>
#include <boost/ut.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace lapidary::test::instructions_test {
namespace {

using namespace boost::ut;

// Words of Linux's /proc/cpuinfo that a set needs.
const std::pair<std::string_view, std::vector<std::string>> kWords[] = {
    {"portable", {}},
    {"neon", {"asimd"}},
    {"dotprod", {"asimddp"}},
    {"i8mm", {"asimddp", "i8mm", "bf16"}},
    {"sse4.1", {"sse4_1"}},
    {"avx2", {"avx2", "fma"}},
    {"avx-vnni", {"avx2", "fma", "avx_vnni"}},
    {"avx512", {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}},
};

std::set<std::string> words_of_cpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  return {std::istream_iterator<std::string>(text), {}};
}

const suite<"instructions"> instructions = [] {
  "every set stands in the table once, portable code first"_test = [] {
    std::set<std::string_view> names;
    for (const cpu::Instructions& one : cpu::all_instructions()) {
      expect(names.insert(one.name).second) << one.name;
      expect(!one.needs.empty() && one.products != nullptr) << one.name;
    }
    expect(cpu::all_instructions().front().name == "portable" && cpu::all_instructions().front().here);
  };

  // An emulator shows the words of the processor underneath: tools/check-emulated says which set it must be.
  "the last set that this processor has is taken"_test = [] {
    std::string_view expected = "portable";
    const std::set<std::string> words = words_of_cpuinfo();
    for (const cpu::Instructions& one : cpu::all_instructions()) {
      const auto needed = std::ranges::find(kWords, one.name, [](const auto& entry) { return entry.first; });
      expect(fatal(needed != std::end(kWords))) << one.name;
      if (std::ranges::all_of(needed->second, [&](const std::string& word) { return words.contains(word); })) expected = one.name;
    }
    if (const char* emulated = std::getenv("LAPIDARY_INSTRUCTIONS")) expected = emulated;
    else if (words.empty()) return;  // not Linux
    expect(cpu::best_instructions().name == expected) << cpu::best_instructions().name << "expected" << expected;
  };
};

}  // namespace
}  // namespace lapidary::test::instructions_test
