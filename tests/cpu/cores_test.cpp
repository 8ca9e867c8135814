// How many threads compute and how much the caches hold: processors, hyperthreads, the quotas of cgroups and caches, as the system's
// files say or fail to say.
#include <boost/ut.hpp>

#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "cpu/cores.hpp"
#include "support/cases.hpp"

namespace lapidary::test::cores_test {
namespace {

using namespace boost::ut;
using Files = std::vector<std::pair<std::string, std::string>>;

// What of(processors, root) makes of the files.
template <class Of>
auto with_files(int processors, const Files& files, Of of) {
  const TemporaryFolder root;
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories(std::filesystem::path(root.path(name)).parent_path());
    root.write(name, text);
  }
  std::vector<int> all(static_cast<std::size_t>(processors));
  std::iota(all.begin(), all.end(), 0);
  return of(all, root.path());
}

int threads_with(int processors, const Files& files) { return with_files(processors, files, cpu::threads_for); }

struct CacheFiles {
  std::string size, shared_by;
};

// Of processors with caches in the order of their levels.
std::size_t cache_bytes(const std::vector<std::vector<CacheFiles>>& processors) {
  Files files;
  for (std::size_t p = 0; p < processors.size(); ++p)
    for (std::size_t i = 0; i < processors[p].size(); ++i) {
      const std::string cache = "sys/devices/system/cpu/cpu" + std::to_string(p) + "/cache/index" + std::to_string(i);
      files.emplace_back(cache + "/size", processors[p][i].size);
      files.emplace_back(cache + "/shared_cpu_list", processors[p][i].shared_by);
    }
  return with_files(static_cast<int>(processors.size()), files, [](std::span<const int> all, const std::string& root) {
    return cpu::last_cache_bytes(all, root);
  });
}

int threads_siblings(const std::vector<std::string>& siblings) {
  Files files;
  for (std::size_t i = 0; i < siblings.size(); ++i)
    files.emplace_back("sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list", siblings[i]);
  return threads_with(static_cast<int>(siblings.size()), files);
}

// Of 64 processors, in a group of version 2.
int threads_unified(const std::string& cpu_max) {
  return threads_with(64, {{"proc/self/cgroup", "0::/box\n"}, {"sys/fs/cgroup/box/cpu.max", cpu_max}});
}

int threads_version_1(const std::string& quota, const std::string& period) {
  return threads_with(64, {{"proc/self/cgroup", "3:memory:/box\n2:cpuacct,cpu:/box\n0::/\n"},
                           {"sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", quota},
                           {"sys/fs/cgroup/cpu/box/cpu.cfs_period_us", period}});
}

suite<"cores"> cores_suite = [] {
  "without any files every processor counts, and one at least"_test = [] {
    expect(eq(threads_with(6, {}), 6));
    expect(eq(threads_with(0, {}), 1));
    expect(eq(threads_with(1000, {}), cpu::kMaxThreads));
  };

  "one of the hyperthreads of a core counts"_test = [] {
    expect(eq(threads_siblings({"0-1\n", "0-1\n", "2-3\n", "2-3\n"}), 2));
    expect(eq(threads_siblings({"0,2\n", "1,3\n", "0,2\n", "1,3\n"}), 2));
    expect(eq(threads_siblings({"0-1\n", "0-1\n", "2\n", "3\n"}), 3)) << "cores of two kinds";
    // Processors 1 and 2 of four: the first sibling of each is not ours, and both count.
    const TemporaryFolder root;
    for (const int i : {1, 2}) {
      const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology";
      std::filesystem::create_directories(root.path(folder));
      root.write(folder + "/thread_siblings_list", i == 1 ? "0-1\n" : "2-3\n");
    }
    expect(eq(cpu::threads_for(std::vector<int>{1, 2}, root.path()), 2));
  };

  "lists of siblings that make no sense leave a core to every processor, but never none"_test = [] {
    for (const std::string text : {"", "\n", "x", "-", ",", "-1", "99999999999999999999", "3-1", "0x0-0x1", "1;0"})
      expect(eq(threads_siblings({text, text}), 2)) << text;
    expect(eq(threads_siblings({"0-9223372036854775807", "0-9223372036854775807"}), 1));
    expect(ge(threads_siblings({std::string(100000, '0'), std::string(100000, ',')}), 1));
  };

  "a quota is rounded up to whole cores"_test = [] {
    for (const auto& [text, threads] : std::vector<std::pair<std::string, int>>{
             {"100000 100000\n", 1}, {"100001 100000\n", 2}, {"250000 100000\n", 3}, {"800000 100000\n", 8},
             {"1000 100000\n", 1}, {"0 100000\n", 1}, {"50000 10000\n", 5}, {"6400000 100000\n", 64}})
      expect(eq(threads_unified(text), threads)) << text;
    expect(eq(threads_version_1("150000\n", "100000\n"), 2));
    expect(eq(threads_version_1("1000\n", "100000\n"), 1));
    expect(eq(threads_version_1("0\n", "100000\n"), 1));
  };

  "no quota, and none that can be read, is no limit"_test = [] {
    for (const std::string text :
         {"max 100000\n", "max\n", "", "\n", " ", "100000", "100000 ", "100000 0\n", "100000 -1\n", "-1 100000\n", "1e5 100000\n",
          "one two\n", "100000 100000 x\n", "99999999999999999999 100000\n", "9223372036854775807 1\n", "100000\t100000\n"})
      expect(eq(threads_unified(text), 64)) << text;
    expect(eq(threads_unified(std::string(1 << 20, '7')), 64));
    expect(eq(threads_version_1("-1\n", "100000\n"), 64));
    expect(eq(threads_version_1("garbage", "100000\n"), 64));
    expect(eq(threads_version_1("100000\n", ""), 64));
    expect(eq(threads_version_1("9223372036854775807\n", "1\n"), 64));
  };

  "the groups above count too, and the container's own where its path is not to be seen"_test = [] {
    const Files groups = {{"proc/self/cgroup", "0::/a/b/c\n"},
                          {"sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n"},
                          {"sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
                          {"sys/fs/cgroup/a/cpu.max", "200000 100000\n"}};
    expect(eq(threads_with(64, groups), 2));
    expect(eq(threads_with(64, {{"proc/self/cgroup", "0::/docker/abc\n"}, {"sys/fs/cgroup/cpu.max", "300000 100000\n"}}), 3));
    expect(eq(threads_with(64, {{"proc/self/cgroup", "0::/../x\n"}, {"sys/fs/cgroup/cpu.max", "300000 100000\n"}}), 3));
    expect(eq(threads_with(64, {{"proc/self/cgroup", "4:cpu,cpuacct:/pod/x\n"},
                                {"sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us", "700000\n"},
                                {"sys/fs/cgroup/cpu/pod/cpu.cfs_period_us", "100000\n"}}), 7));
  };

  "a list of groups that makes no sense is no limit"_test = [] {
    const std::string slashes(200000, '/');
    for (const std::string& text : {std::string(), std::string("\n\n"), std::string("::::"), std::string("0:"), std::string("0::a/b"),
                                    std::string("cpu"), std::string(":cpu:"), slashes, "0::" + slashes, std::string(200000, ',')})
      expect(eq(threads_with(64, {{"proc/self/cgroup", text}}), 64)) << text.substr(0, 20);
  };

  "the last caches count, each once"_test = [] {
    const CacheFiles own{"48K\n", "0\n"};
    expect(eq(cache_bytes({{own, {"2048K\n", "0\n"}, {"36608K\n", "0-1\n"}}, {own, {"2048K\n", "1\n"}, {"36608K\n", "0-1\n"}}}), std::size_t{36608} << 10));
    expect(eq(cache_bytes({{own, {"32768K\n", "0-1,4\n"}}, {own, {"32768K\n", "0-1,4\n"}}, {own, {"32768K\n", "2-3\n"}}}), std::size_t{65536} << 10))
        << "caches of two groups of cores";
    expect(eq(cache_bytes({{{"1024K\n", "0\n"}}, {{"512K\n", "1\n"}}}), std::size_t{1536} << 10)) << "cores of two kinds";
  };

  "caches that make no sense are none"_test = [] {
    expect(eq(cache_bytes({}), 0_ul));
    expect(eq(cache_bytes({{}, {}}), 0_ul));
    for (const std::string text : {"\n", "K", "x", "-1K", "1e3K", "99999999999999999999K"})
      expect(eq(cache_bytes({{{text, "0\n"}}}), 0_ul)) << text;
  };

#if defined(__linux__)
  "a process that may use one processor has one thread"_test = [] {
    int threads = 0;
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(sched_getcpu(), &one);
      expect(eq(sched_setaffinity(0, sizeof one, &one), 0));
      threads = cpu::default_threads();
    }).join();
    expect(eq(threads, 1));
    expect(ge(cpu::default_threads(), 1));
  };
#endif
};

}  // namespace
}  // namespace lapidary::test::cores_test
