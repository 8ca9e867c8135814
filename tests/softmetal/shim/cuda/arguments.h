// How a kernel gets its arguments: one struct by value with the buffers, and where in dynamic shared memory its threadgroup
// arguments begin. Function constants are variables softmetal_constant_N and softmetal_constant_N_set in constant memory,
// set once for each module that is loaded.
#pragma once

namespace metal {

struct Arguments {
  void* buffer[31];
  uint threadgroup_offset[4];
  uint grid[3];  // in threads
};

enum Position {
  thread_position_in_grid,
  thread_position_in_threadgroup,
  threadgroup_position_in_grid,
  threads_per_threadgroup,
  dispatch_threads_per_threadgroup,
  threadgroups_per_grid,
  threads_per_grid,
  thread_index_in_threadgroup,
  thread_index_in_simdgroup,
  simdgroup_index_in_threadgroup,
  simdgroups_per_threadgroup,
  threads_per_simdgroup,
};

extern __shared__ char dynamic_memory[];

METAL_DEVICE Vector<uint, 3> vector_of(const uint3& v) { return {v.x, v.y, v.z}; }
METAL_DEVICE Vector<uint, 3> vector_of(const dim3& v) { return {v.x, v.y, v.z}; }

template <Position P>
METAL_DEVICE Vector<uint, 3> position_of(const Arguments& arguments) {
  const uint index = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  switch (P) {
    case thread_position_in_grid: return vector_of(blockIdx) * vector_of(blockDim) + vector_of(threadIdx);
    case thread_position_in_threadgroup: return vector_of(threadIdx);
    case threadgroup_position_in_grid: return vector_of(blockIdx);
    case threads_per_threadgroup:
    case dispatch_threads_per_threadgroup: return vector_of(blockDim);
    case threadgroups_per_grid: return vector_of(gridDim);
    case threads_per_grid: return {arguments.grid[0], arguments.grid[1], arguments.grid[2]};
    case thread_index_in_threadgroup: return {index};
    case thread_index_in_simdgroup: return {index % 32};
    case simdgroup_index_in_threadgroup: return {index / 32};
    case simdgroups_per_threadgroup: return {(blockDim.x * blockDim.y * blockDim.z + 31) / 32};
    case threads_per_simdgroup: break;
  }
  return {32u};
}

template <class P>
struct Memory;
template <class T>
struct Memory<T*> {
  static METAL_DEVICE T* from(void* address) { return static_cast<T*>(address); }
};
template <class T>
struct Memory<T&> {
  static METAL_DEVICE T& from(void* address) { return *static_cast<T*>(address); }
};
template <class P>
struct Picked {
  static METAL_DEVICE P from(Vector<uint, 3> v) { return P(v.x); }
};
template <class T>
struct Picked<Vector<T, 2>> {
  static METAL_DEVICE Vector<T, 2> from(Vector<uint, 3> v) { return {T(v.x), T(v.y)}; }
};
template <class T>
struct Picked<Vector<T, 3>> {
  static METAL_DEVICE Vector<T, 3> from(Vector<uint, 3> v) { return {T(v.x), T(v.y), T(v.z)}; }
};

template <int N>
struct BufferAt {
  template <class P>
  static METAL_DEVICE P get(const Arguments& arguments) {
    return Memory<P>::from(arguments.buffer[N]);
  }
};
template <int N>
struct ThreadgroupAt {
  template <class P>
  static METAL_DEVICE P get(const Arguments& arguments) {
    return Memory<P>::from(dynamic_memory + arguments.threadgroup_offset[N]);
  }
};
template <Position A>
struct PositionAt {
  template <class P>
  static METAL_DEVICE P get(const Arguments& arguments) {
    return Picked<P>::from(position_of<A>(arguments));
  }
};

// Grids are given in whole threadgroups: a block of CUDA is never smaller than the others.
template <class Function, Function function, class... Bindings>
struct Entry;
template <class... Parameters, void (*function)(Parameters...), class... Bindings>
struct Entry<void (*)(Parameters...), function, Bindings...> {
  static METAL_DEVICE void call(const Arguments& arguments) { function(Bindings::template get<Parameters>(arguments)...); }
};

}  // namespace metal
