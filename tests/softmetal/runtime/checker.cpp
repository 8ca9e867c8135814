#include "runtime/checker.hpp"

#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <memory>
#include <unordered_map>

namespace softmetal::checker {
namespace {

constexpr std::size_t kPageBits = 12, kPageBytes = 1 << kPageBits, kWordBytes = 4;
constexpr std::size_t kMaxReports = 8;

// The last access of a kind: by which thread, and how far its clocks had run.
struct Access {
  std::uint64_t thread = 0;  // number of the threadgroup and index in it; 0 = there was none
  std::uint32_t all = 0, pass = 0, barrier = 0;
  std::uint32_t device_barriers = 0, threadgroup_barriers = 0, simdgroup_barriers = 0;
};

struct Accesses {
  Access write, read, atomic;
};

// Most accesses are to whole words: only where one is not, the bytes of a word are kept apart.
struct Word {
  Accesses whole;
  std::unique_ptr<Accesses[]> bytes;
};

struct Page {
  Word words[kPageBytes / kWordBytes];
};

struct Report {
  std::string text;
  const void* code;
};

enum class Kind { read, write, atomic };

struct State {
  std::uint32_t all = 1, pass = 1, barrier = 1;
  std::vector<Range> ranges;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages;
  std::vector<Report> reports;
  std::size_t report_count = 0;
};

State& state() {
  static State* const one = new State;
  return *one;
}

void report(const Lane& lane, const std::string& what, unsigned bytes, const std::string& where, const void* code) {
  State& now = state();
  if (++now.report_count > kMaxReports) return;
  const Threadgroup& group = *lane.group;
  now.reports.push_back({what + ": " + std::to_string(bytes) + " bytes" + where + ", kernel " +
                             group.dispatch->kernel->name + ", threadgroup (" + std::to_string(group.position[0]) + ", " +
                             std::to_string(group.position[1]) + ", " + std::to_string(group.position[2]) + "), thread " +
                             std::to_string(lane.index),
                         code});
}

std::uint64_t thread_of(const Lane& lane) { return lane.group->number << 10 | lane.index; }

// Whether an earlier access is known to have happened before what the lane does now.
bool ordered(const Access& access, const Lane& lane, bool local, bool tracked) {
  const State& now = state();
  if (access.thread == 0 || access.all != now.all) return true;
  if (access.pass != now.pass) {
    if (tracked) return true;
  } else if (access.barrier != now.barrier || access.thread == thread_of(lane)) {
    return true;
  }
  const Threadgroup& group = *lane.group;
  if (access.thread >> 10 != group.number) return local;  // threadgroup memory is another one for each threadgroup
  if (local ? access.threadgroup_barriers != group.threadgroup_barriers : access.device_barriers != group.device_barriers)
    return true;
  const bool same_simdgroup = (access.thread & (kMaxThreads - 1)) / kSimdWidth == lane.index / kSimdWidth;
  return same_simdgroup && access.simdgroup_barriers != lane.simdgroup->barriers;
}

void note(Access& access, const Lane& lane) {
  const State& now = state();
  access = {.thread = thread_of(lane),
            .all = now.all,
            .pass = now.pass,
            .barrier = now.barrier,
            .device_barriers = lane.group->device_barriers,
            .threadgroup_barriers = lane.group->threadgroup_barriers,
            .simdgroup_barriers = lane.simdgroup->barriers};
}

// What is wrong with an access, or null.
const char* race_of(Accesses& earlier, Kind kind, const Lane& lane, bool local, bool tracked) {
  const auto unordered = [&](const Access& access) { return !ordered(access, lane, local, tracked); };
  if (unordered(earlier.write))
    return kind == Kind::write  ? "two threads write"
           : kind == Kind::read ? "a thread reads what another writes"
                                : "a thread changes by an atomic what another writes";
  if (kind != Kind::read && unordered(earlier.read)) return "a thread writes what another reads";
  if (kind != Kind::atomic && unordered(earlier.atomic))
    return "a thread reads or writes what another changes by an atomic";
  if (kind == Kind::write) note(earlier.write, lane);
  // Of several threads that read, or change by atomics, the first is kept.
  if (kind == Kind::atomic && !unordered(earlier.atomic)) note(earlier.atomic, lane);
  if (kind == Kind::read && !unordered(earlier.read)) note(earlier.read, lane);
  return nullptr;
}

Word& word_at(std::uintptr_t address) {
  thread_local std::uintptr_t last_number = 0;
  thread_local Page* last = nullptr;
  const std::uintptr_t number = address >> kPageBits;
  if (!last || number != last_number) {
    std::unique_ptr<Page>& page = state().pages[number];
    if (!page) page = std::make_unique<Page>();
    last = page.get();
    last_number = number;
  }
  return last->words[(address & (kPageBytes - 1)) / kWordBytes];
}

const Range* range_of(std::uintptr_t address, unsigned bytes, Kind kind) {
  for (const Range& range : state().ranges)
    if (address >= range.begin && address + bytes <= range.end && (range.writable || kind == Kind::read)) return &range;
  return nullptr;
}

__attribute__((noinline)) void access(std::uintptr_t address, unsigned bytes, Kind kind, const void* code) {
  const auto stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (address >> kStackBits == stack >> kStackBits) return;  // the thread's own
  const Lane& lane = *lane_at(stack);
  const auto memory = reinterpret_cast<std::uintptr_t>(lane.group->memory);
  const bool local = address >= memory && address < memory + 2 * kThreadgroupBytes;
  if (local && address + bytes > memory + lane.group->memory_used)
    return report(lane, "out of bounds", bytes, " of threadgroup memory", code);
  const Range* range = local ? nullptr : range_of(address, bytes, kind);
  if (!local && !range)
    return report(lane, kind == Kind::read ? "read out of bounds" : "write out of bounds", bytes, "", code);
  for (std::uintptr_t at = address; at < address + bytes;) {
    Word& word = word_at(at);
    const std::size_t first = at % kWordBytes, count = std::min<std::size_t>(kWordBytes - first, address + bytes - at);
    if (count < kWordBytes && !word.bytes) {
      word.bytes = std::make_unique<Accesses[]>(kWordBytes);
      std::fill_n(word.bytes.get(), kWordBytes, word.whole);
    }
    const char* race = nullptr;
    if (!word.bytes) race = race_of(word.whole, kind, lane, local, local || range->tracked);
    for (std::size_t i = first; word.bytes && !race && i < first + count; ++i)
      race = race_of(word.bytes[i], kind, lane, local, local || range->tracked);
    if (race) {
      word = {};
      const std::string where =
          local ? " of threadgroup memory" : " at " + std::to_string(address - range->begin) + " of " + range->name;
      return report(lane, std::string("race, ") + race, bytes, where, code);
    }
    at += count;
  }
}

// The line of the shader text that `code` was compiled from.
std::string source_of(const void* code) {
  Dl_info info{};
  if (::dladdr(code, &info) == 0) return "";
  const auto offset = reinterpret_cast<std::uintptr_t>(code) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  char command[4096];
  std::snprintf(command, sizeof command, "addr2line -e '%s' 0x%lx 2>/dev/null", info.dli_fname,
                static_cast<unsigned long>(offset - 1));
  FILE* pipe = ::popen(command, "r");
  if (!pipe) return "";
  char line[1024] = "";
  const bool read = std::fgets(line, sizeof line, pipe) != nullptr;
  ::pclose(pipe);
  std::string text = read ? line : "";
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const std::size_t slash = text.rfind('/');
  return slash == std::string::npos ? text : text.substr(slash + 1);
}

}  // namespace

void set_ranges(std::vector<Range> ranges) { state().ranges = std::move(ranges); }

void order(Order order) {
  ++state().barrier;
  if (order != Order::barrier) ++state().pass;
  if (order == Order::all) ++state().all;
}

std::string take_reports() {
  State& now = state();
  std::string text;
  for (const Report& one : now.reports) text += one.text + ", " + source_of(one.code) + "\n";
  if (now.report_count > kMaxReports) text += "and " + std::to_string(now.report_count - kMaxReports) + " more\n";
  now.reports.clear();
  now.report_count = 0;
  return text;
}

}  // namespace softmetal::checker

using softmetal::checker::access;
using softmetal::checker::Kind;

// The compiler's instrumentation for ThreadSanitizer, under our own names: build-library renames what shaders call, so that
// the real one can live in the same program.
extern "C" {

#define CHECKED_SIZE(bytes)                                                                      \
  void softmetal_tsan_read##bytes(void* address) {                                               \
    access((std::uintptr_t)address, bytes, Kind::read, __builtin_return_address(0));             \
  }                                                                                              \
  void softmetal_tsan_write##bytes(void* address) {                                              \
    access((std::uintptr_t)address, bytes, Kind::write, __builtin_return_address(0));            \
  }                                                                                              \
  void softmetal_tsan_unaligned_read##bytes(void* address) {                                     \
    access((std::uintptr_t)address, bytes, Kind::read, __builtin_return_address(0));             \
  }                                                                                              \
  void softmetal_tsan_unaligned_write##bytes(void* address) {                                    \
    access((std::uintptr_t)address, bytes, Kind::write, __builtin_return_address(0));            \
  }
CHECKED_SIZE(1)
CHECKED_SIZE(2)
CHECKED_SIZE(4)
CHECKED_SIZE(8)
CHECKED_SIZE(16)
#undef CHECKED_SIZE

void softmetal_tsan_init() {}
void softmetal_tsan_read_range(void* address, unsigned long bytes) {
  access((std::uintptr_t)address, (unsigned)bytes, Kind::read, __builtin_return_address(0));
}
void softmetal_tsan_write_range(void* address, unsigned long bytes) {
  access((std::uintptr_t)address, (unsigned)bytes, Kind::write, __builtin_return_address(0));
}
void* softmetal_tsan_memcpy(void* to, const void* from, unsigned long bytes) {
  access((std::uintptr_t)from, (unsigned)bytes, Kind::read, __builtin_return_address(0));
  access((std::uintptr_t)to, (unsigned)bytes, Kind::write, __builtin_return_address(0));
  return __builtin_memcpy(to, from, bytes);
}
void* softmetal_tsan_memset(void* to, int value, unsigned long bytes) {
  access((std::uintptr_t)to, (unsigned)bytes, Kind::write, __builtin_return_address(0));
  return __builtin_memset(to, value, bytes);
}
void softmetal_atomic(const volatile void* address, unsigned bytes) {
  access((std::uintptr_t)address, bytes, Kind::atomic, __builtin_return_address(0));
}

}  // extern "C"
