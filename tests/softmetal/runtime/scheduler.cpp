#include "runtime/scheduler.hpp"

#include <bit>
#include <cstring>
#include <string>

#include "runtime/settings.hpp"

using namespace softmetal;

extern "C" {
void softmetal_enter(void** save, void* to);
[[noreturn]] void softmetal_leave(void* to);
void* softmetal_next(Lane* lane, void* stack);
}

namespace softmetal {
namespace {

constexpr unsigned kMemDevice = 1, kMemThreadgroup = 2;  // mem_flags

std::string state_of(const Simdgroup& simdgroup, int place) {
  const std::uint32_t bit = 1u << place;
  const std::string line = ", line " + std::to_string(simdgroup.site[place] >> 10);
  if (simdgroup.at_simd & bit) return "at a simd function" + line;
  if (simdgroup.at_barrier & bit) return "at threadgroup_barrier" + line;
  return simdgroup.returned & bit ? "returned" : "running";
}

[[noreturn]] void diverged(const Simdgroup& simdgroup, const std::string& what) {
  const Threadgroup& group = *simdgroup.lane[0]->group;
  std::string text = what + " in kernel " + group.dispatch->kernel->name + ", threadgroup (" +
                     std::to_string(group.position[0]) + ", " + std::to_string(group.position[1]) + ", " +
                     std::to_string(group.position[2]) + "), simdgroup " +
                     std::to_string(simdgroup.lane[0]->simdgroup_index);
  for (int place = 0; place < simdgroup.lanes; ++place)
    text += "\n  lane " + std::to_string(simdgroup.lane[place]->lane) + " " + state_of(simdgroup, place);
  fail_kernel(text);
}

std::uint32_t all_of(const Simdgroup& simdgroup) { return ~0u >> (kSimdWidth - simdgroup.lanes); }

// Whether the lanes of the mask wait at this place in the text.
bool wait_at(const Simdgroup& simdgroup, std::uint32_t mask, std::uint32_t site) {
  bool same = true;
  for (int place = 0; place < kSimdWidth; ++place) same &= simdgroup.site[place] == site || !(mask >> place & 1);
  return same;
}

// All lanes wait at a simd function: they have met.
void finish_meeting(Simdgroup& simdgroup) {
  if (simdgroup.at_barrier)
    diverged(simdgroup, "lanes of one simdgroup wait at a simd function and at threadgroup_barrier");
  const std::uint32_t met = simdgroup.at_simd;
  if (!wait_at(simdgroup, met, simdgroup.site[std::countr_zero(met)]))
    diverged(simdgroup, "lanes of one simdgroup wait at different simd functions");
  std::uint32_t active = met;
  if (met != all_of(simdgroup)) {
    active = 0;
    for (int place = 0; place < simdgroup.lanes; ++place)
      if (met >> place & 1) active |= 1u << simdgroup.lane[place]->lane;
  }
  simdgroup.active[simdgroup.area] = active;
  simdgroup.has_result[simdgroup.area] = false;
  simdgroup.area ^= 1;
  simdgroup.running = met;
  simdgroup.at_simd = 0;
}

// No lane of the threadgroup can run: they have met at a barrier. False: all have returned.
bool finish_barrier(Threadgroup& group) {
  const Simdgroup* first = nullptr;
  bool any_returned = false;
  for (int s = 0; s < group.simdgroup_count; ++s) {
    const Simdgroup& simdgroup = group.simdgroup[s];
    any_returned |= simdgroup.returned != 0;
    if (!simdgroup.at_barrier) continue;
    if (!first) first = &simdgroup;
    if (!wait_at(simdgroup, simdgroup.at_barrier, first->site[std::countr_zero(first->at_barrier)]))
      diverged(simdgroup, "threads wait at different threadgroup_barriers");
  }
  if (!first) return false;
  if (any_returned) diverged(*first, "threadgroup_barrier after some threads returned");
  if (group.barrier_flags & kMemDevice) ++group.device_barriers;
  if (group.barrier_flags & kMemThreadgroup) ++group.threadgroup_barriers;
  for (int s = 0; s < group.simdgroup_count; ++s) {
    group.simdgroup[s].running = group.simdgroup[s].at_barrier;
    group.simdgroup[s].at_barrier = 0;
  }
  return true;
}

void* first_running(const Simdgroup& simdgroup) { return simdgroup.stack[std::countr_zero(simdgroup.running)]; }

constexpr int kFetchedBytes = 320;  // of a stack: more of it takes longer than it saves

// The stacks of all lanes are more than the nearest cache holds: each is asked for while another lane runs.
void fetch_lane(const Simdgroup& simdgroup, int place) {
  const char* stack = static_cast<const char*>(simdgroup.stack[place]);
  for (int byte = 0; byte < kFetchedBytes; byte += 64) __builtin_prefetch(stack + byte);
  __builtin_prefetch(simdgroup.lane[place]);
}

// No other lane of the simdgroup can run.
__attribute__((noinline)) void* after_meeting(Simdgroup& simdgroup, Threadgroup& group) {
  if (simdgroup.at_simd) {
    finish_meeting(simdgroup);
    return first_running(simdgroup);
  }
  for (int s = 0; s < group.simdgroup_count; ++s)
    if (group.simdgroup[s].running) return first_running(group.simdgroup[s]);
  return finish_barrier(group) ? first_running(group.simdgroup[0]) : group.caller;
}

// Where a lane begins.
extern "C" void softmetal_lane_main() {
  Lane& lane = *this_lane();
  lane.group->dispatch->kernel->entry(lane.group->dispatch, &lane);
  const std::uint32_t bit = 1u << lane.place;
  lane.simdgroup->running &= ~bit;
  lane.simdgroup->returned |= bit;
  softmetal_leave(softmetal_next(&lane, nullptr));
}

}  // namespace

void* first_stack(const Lane& lane) {
  const std::uintptr_t top = (reinterpret_cast<std::uintptr_t>(&lane) - 64) & ~std::uintptr_t{15};
#if defined(__aarch64__)
  auto* frame = reinterpret_cast<std::uint64_t*>(top - 16);
#else
  auto* frame = reinterpret_cast<std::uint64_t*>(top - 24);  // a function begins 8 bytes off a multiple of 16
#endif
  frame[0] = 0;
  frame[1] = reinterpret_cast<std::uint64_t>(&softmetal_lane_main);
  return frame;
}

void run_lanes(Threadgroup& group) { softmetal_enter(&group.caller, group.simdgroup[0].stack[0]); }

}  // namespace softmetal

extern "C" {

// `lane` waits or has returned, with this stack. Returns the one that goes on: mostly of the next lane.
void* softmetal_next(Lane* lane, void* stack) {
  Simdgroup& simdgroup = *lane->simdgroup;
  simdgroup.stack[lane->place] = stack;
  const std::uint32_t later = simdgroup.running & ~1u << lane->place;
  if (const std::uint32_t after_it = later & (later - 1)) fetch_lane(simdgroup, std::countr_zero(after_it));
  if (later) return simdgroup.stack[std::countr_zero(later)];
  if (simdgroup.running) return first_running(simdgroup);
  return after_meeting(simdgroup, *lane->group);
}

// Threadgroup memory begins as NaN, so that what nobody wrote is noticed.
void* softmetal_threadgroup_variable(Lane* lane, int number, std::size_t bytes) {
  Threadgroup& group = *lane->group;
  void*& variable = group.variable[number];
  if (variable) return variable;
  const std::size_t taken = (bytes + 15) & ~std::size_t{15};
  if (group.memory_used + taken > kThreadgroupBytes)
    fail_kernel(std::string("kernel ") + group.dispatch->kernel->name + " uses " +
                std::to_string(group.memory_used + taken) + " bytes of threadgroup memory, more than " +
                std::to_string(+kThreadgroupBytes));
  variable = group.memory + group.memory_used;
  std::memset(variable, 0xff, bytes);
  group.memory_used += taken;
  return variable;
}

}  // extern "C"
