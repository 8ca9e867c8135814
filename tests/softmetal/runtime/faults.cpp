#include "runtime/faults.hpp"

#include <csignal>
#include <cstdint>
#include <string>
#include <sys/mman.h>

#include "runtime/checker.hpp"
#include "runtime/settings.hpp"

namespace softmetal {
namespace {

thread_local const Threadgroup* running = nullptr;
struct sigaction earlier_action;

std::string describe(std::uintptr_t address, const Threadgroup& group) {
  const Dispatch& dispatch = *group.dispatch;
  for (int s = 0; s < group.simdgroup_count; ++s)
    for (int i = 0; i < group.simdgroup[s].lanes; ++i)
      if (address >> kStackBits == reinterpret_cast<std::uintptr_t>(group.simdgroup[s].lane[i]) >> kStackBits)
        return "its stack is used up";
  // A buffer ends where a page ends, so what lies at most one page behind it was meant to be of it.
  constexpr std::uint64_t kNear = 65536;
  for (int i = 0; i < kMaxBuffers; ++i) {
    const auto end = reinterpret_cast<std::uintptr_t>(dispatch.buffer[i]) + dispatch.buffer_bytes[i];
    if (dispatch.buffer[i] && address >= end && address - end < kNear)
      return std::to_string(address - end) + " bytes past the end of [[buffer(" + std::to_string(i) + ")]]";
  }
  return "an address that is in none of its buffers";
}

// Other faults are left to whoever handled them before, by letting them happen again.
void on_fault(int, siginfo_t* info, void*) {
  if (!running) {
    ::sigaction(SIGSEGV, &earlier_action, nullptr);
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  fail_kernel(std::string("kernel ") + running->dispatch->kernel->name + " touches memory it must not: " +
              describe(address, *running) + "\n" + checker::take_reports());
}

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, &earlier_action);
}

}  // namespace

void use_fault_stack() {
  static const bool installed = (install_handler(), true);
  static_cast<void>(installed);
  thread_local bool done = false;
  if (done) return;
  done = true;
  constexpr std::size_t kBytes = 65536;
  stack_t stack{};
  stack.ss_sp = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = kBytes;
  ::sigaltstack(&stack, nullptr);
}

RunningGroup::RunningGroup(const Threadgroup& group) { running = &group; }
RunningGroup::~RunningGroup() { running = nullptr; }

}  // namespace softmetal
