// What a compiled shader library and the device that runs it know of each other. Shader text sees this file, so it needs no
// standard header of C++.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace softmetal {

enum {
  kMaxBuffers = 31,
  kMaxThreadgroupArguments = 31,
  kMaxThreadgroupVariables = 256,
  kMaxFunctionConstants = 256,
  kSimdWidth = 32,
  kMaxThreads = 1024,              // of a threadgroup
  kThreadgroupBytes = 32768,       // of threadgroup memory
  kStackBits = 17,                 // a thread's stack, guard page included, lies at a multiple of its size
  kStackBytes = 1 << kStackBits,
};

struct Lane;
struct Dispatch;

enum ArgumentKind { kBufferArgument, kThreadgroupArgument, kPositionArgument };

struct Argument {
  ArgumentKind kind;
  int index;
  bool constant_space;
  int function_constant;           // the argument exists when that constant is true; -1: always
  unsigned bytes;                  // that must be there: one element
  unsigned alignment;
};

struct Kernel {
  const char* name;
  void (*entry)(const Dispatch*, Lane*);
  const Argument* arguments;
  int argument_count;
  const int* constants;            // function constants that the kernel reads
  int constant_count;
  unsigned max_threads;            // of a threadgroup, as the text says; 0: it says nothing
};

struct FunctionConstant {
  const char* name;
  const char* type;
  int index;
  int bytes;
};

struct Library {
  const Kernel* kernels;
  int kernel_count;
  const FunctionConstant* constants;
  int constant_count;
};

// Of a pipeline.
struct ConstantValue {
  bool set;
  unsigned char bytes[16];
};
struct ConstantValues {
  ConstantValue value[kMaxFunctionConstants];
};

struct Dispatch {
  const Kernel* kernel;
  const ConstantValues* constants;
  void* buffer[kMaxBuffers];
  uint64_t buffer_bytes[kMaxBuffers];     // from there to the end of the buffer
  uint32_t threadgroup_bytes[kMaxThreadgroupArguments];
  uint32_t groups[3];
  uint32_t threads[3];                    // of a full threadgroup
  uint32_t grid[3];                       // in threads
};

// The lanes of a simdgroup meet in one of two areas by turns: a lane may begin the next meeting before the last one has
// read the results of this. Lanes run in an order of their own: what is kept by place, and the bits of masks, follow it.
struct Simdgroup {
  alignas(64) unsigned char slot[2][kSimdWidth][16];
  unsigned char result[2][16];
  float product[2][8][8];
  bool has_result[2];
  uint32_t active[2];                     // lanes that took part, by number
  int area;
  uint32_t barriers;                      // simdgroup_barrier so far
  int lanes;
  uint32_t running, at_simd, at_barrier, returned;
  uint32_t site[kSimdWidth];              // where a lane waits: line and column of the call
  void* stack[kSimdWidth];                // of lanes that wait
  Lane* lane[kSimdWidth];
};

struct Threadgroup {
  const Dispatch* dispatch;
  uint32_t position[3];
  int simdgroup_count;
  Simdgroup* simdgroup;
  void* variable[kMaxThreadgroupVariables];
  void* argument[kMaxThreadgroupArguments];
  char* memory;                           // threadgroup memory
  size_t memory_used;
  uint32_t barrier_flags;                 // of the barrier that is waited at
  uint32_t device_barriers, threadgroup_barriers;  // so far, by the flags they had
  uint64_t number;                        // of no other threadgroup
  void* caller;                           // the stack of the thread that runs it all
};

struct Lane {
  Threadgroup* group;
  Simdgroup* simdgroup;
  const ConstantValues* constants;
  uint32_t place;                         // in the order of its simdgroup
  uint32_t index;                         // in the threadgroup
  uint32_t lane;                          // in the simdgroup
  uint32_t simdgroup_index;
  uint32_t position[3];                   // in the threadgroup
};

// A lane's record lies near the top of its own stack, so that any address in the stack finds it. The shift spreads what the
// lanes use most over the sets of the cache.
inline __attribute__((always_inline)) Lane* lane_at(uintptr_t address) {
  const uintptr_t stack = address >> kStackBits;
  return (Lane*)((stack << kStackBits) + kStackBytes - 256 - (stack & 31) * 704);
}
inline __attribute__((always_inline)) Lane* this_lane() { return lane_at((uintptr_t)__builtin_frame_address(0)); }

}  // namespace softmetal

extern "C" {
// Lets others go on until all have met that this lane waits for. Preserves no register: what a meeting costs is what the
// kernel holds.
__attribute__((preserve_none)) void softmetal_park(softmetal::Lane* lane);
void* softmetal_threadgroup_variable(softmetal::Lane* lane, int number, size_t bytes);
// Checked libraries only: an atomic access.
void softmetal_atomic(const volatile void* address, unsigned bytes);
}
