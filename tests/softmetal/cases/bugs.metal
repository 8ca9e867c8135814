// One mistake for each kernel, all over the same arguments: 256 numbers in, 256 out, in threadgroups of 64.
// softmetal_test.cpp says how each is noticed.
#include <metal_stdlib>
using namespace metal;


kernel void good(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]],
                 uint t [[thread_position_in_threadgroup]]) {
  threadgroup float shared[64];
  shared[t] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = simd_sum(shared[63 - t]) * 0.125f + shared[t ^ 5];
}

kernel void missing_barrier(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                            uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup float shared[64];
  shared[t] = x[i];
  y[i] = shared[63 - t];
}

kernel void wrong_flag(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                       uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup float shared[64];
  shared[t] = x[i];
  threadgroup_barrier(mem_flags::mem_device);
  y[i] = shared[63 - t];
}

// A barrier is missing before the second assignment.
kernel void reused_too_early(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                             uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup float shared[64];
  shared[t] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float other = shared[63 - t];
  shared[t] = other + 1.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = shared[63 - t];
}

// Lanes of a simdgroup need simdgroup_barrier.
kernel void simdgroup_race(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                           uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup float shared[64];
  shared[t] = x[i];
  y[i] = shared[t ^ 1];
}

kernel void race_of_groups(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                           uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  y[t] = x[i];
}

kernel void read_past_end(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                          uint i [[thread_position_in_grid]]) {
  y[i] = x[i + 1];
}

kernel void read_before_begin(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                              uint i [[thread_position_in_grid]]) {
  y[i] = x[int(i) - 1];
}

kernel void threadgroup_overflow(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                                 uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup float shared[64];
  shared[t + 1] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = shared[t + 1];
}

kernel void not_initialised(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                            uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup float shared[64];
  if (t < 32) shared[t] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = shared[t];
}

kernel void divergent_barrier(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                              uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  if (t < 32) threadgroup_barrier(mem_flags::mem_device);
  else threadgroup_barrier(mem_flags::mem_device);
  y[i] = x[i];
}

kernel void return_before_barrier(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                                  uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  if (t >= 48) return;
  threadgroup_barrier(mem_flags::mem_device);
  y[i] = x[i];
}

kernel void divergent_simd(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                           uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  if (lane < 16) y[i] = simd_sum(x[i]);
  else y[i] = simd_max(x[i]);
}

kernel void simd_and_barrier(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                             uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  if (lane < 16) y[i] = simd_sum(x[i]);
  else threadgroup_barrier(mem_flags::mem_device);
}

kernel void too_much_stack(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                           uint i [[thread_position_in_grid]]) {
  float held[65536];
  for (uint k = 0; k < 65536; ++k) held[k] = x[(i + k) % 256];
  y[i] = held[i * 3];
}

kernel void too_much_threadgroup_memory(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                                        uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup float first[5000];
  threadgroup float second[5000];
  first[t] = x[i];
  second[t] = x[i];
  y[i] = first[t] + second[t];
}

// All threads count, one looks without an atomic.
kernel void atomic_race(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                        uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit((device atomic_uint*)y, 1u, memory_order_relaxed);
  if (i == 255) y[1] = y[0] + x[0];
}

kernel void atomic_past_end(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                            uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit((device atomic_uint*)y + i + 4, uint(x[i]), memory_order_relaxed);
}

// For the order of commands: good when all of a command is done before the next one begins.
kernel void add_one(device float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  y[i] = x[255 - i] + 1.0f;
}
