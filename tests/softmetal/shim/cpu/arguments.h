// How a kernel gets its arguments: the translator lists what each parameter is bound to, the types come from the kernel
// itself.
#pragma once

namespace softmetal {

// `constant T name [[function_constant(n)]];` becomes a ConstantAt<T, n>, each use of the name a call of value().
template <class T, int N>
struct ConstantAt {
  SOFTMETAL_INSIDE T value() const {
    T result;
    __builtin_memcpy(&result, this_lane()->constants->value[N].bytes, sizeof result);
    return result;
  }
  SOFTMETAL_INSIDE bool defined() const { return this_lane()->constants->value[N].set; }
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

template <Position P>
SOFTMETAL_INSIDE uint32_t position_of(const Dispatch* dispatch, const Lane* lane, int axis) {
  const Threadgroup* group = lane->group;
  switch (P) {
    case thread_position_in_grid: return group->position[axis] * dispatch->threads[axis] + lane->position[axis];
    case thread_position_in_threadgroup: return lane->position[axis];
    case threadgroup_position_in_grid: return group->position[axis];
    case threads_per_threadgroup:
    case dispatch_threads_per_threadgroup: return dispatch->threads[axis];
    case threadgroups_per_grid: return dispatch->groups[axis];
    case threads_per_grid: return dispatch->grid[axis];
    case thread_index_in_threadgroup: return lane->index;
    case thread_index_in_simdgroup: return lane->lane;
    case simdgroup_index_in_threadgroup: return lane->simdgroup_index;
    case simdgroups_per_threadgroup: return uint32_t(group->simdgroup_count);
    case threads_per_simdgroup: return kSimdWidth;
  }
}

// A parameter that is a pointer or a reference into memory.
template <class P>
struct Memory;
template <class T>
struct Memory<T*> {
  static constexpr unsigned kBytes = sizeof(T), kAlignment = alignof(T);
  static SOFTMETAL_INSIDE T* from(void* address) { return static_cast<T*>(address); }
};
template <class T>
struct Memory<T&> {
  static constexpr unsigned kBytes = sizeof(T), kAlignment = alignof(T);
  static SOFTMETAL_INSIDE T& from(void* address) { return *static_cast<T*>(address); }
};

template <int N, bool InConstantSpace, int IfConstant>
struct BufferAt {
  template <class P>
  static SOFTMETAL_INSIDE P get(const Dispatch* dispatch, Lane*) {
    return Memory<P>::from(dispatch->buffer[N]);
  }
  template <class P>
  static constexpr Argument describe() {
    return {kBufferArgument, N, InConstantSpace, IfConstant, Memory<P>::kBytes, Memory<P>::kAlignment};
  }
};
template <int N>
struct ThreadgroupAt {
  template <class P>
  static SOFTMETAL_INSIDE P get(const Dispatch*, Lane* lane) {
    return Memory<P>::from(lane->group->argument[N]);
  }
  template <class P>
  static constexpr Argument describe() {
    return {kThreadgroupArgument, N, false, -1, Memory<P>::kBytes, Memory<P>::kAlignment};
  }
};
template <Position P>
struct PositionAt {
  template <class V>
  static SOFTMETAL_INSIDE V get(const Dispatch* dispatch, Lane* lane) {
    typedef typename Shape<V>::Element Element;
    if constexpr (Shape<V>::kCount == 1) return Element(position_of<P>(dispatch, lane, 0));
    else {
      V position;
      for (int axis = 0; axis < Shape<V>::kCount; ++axis) position[axis] = Element(position_of<P>(dispatch, lane, axis));
      return position;
    }
  }
  template <class V>
  static constexpr Argument describe() {
    return {kPositionArgument, P, false, -1, 0, 1};
  }
};

template <class Function, Function function, class... Bindings>
struct Entry;
template <class... Parameters, void (*function)(Parameters...), class... Bindings>
struct Entry<void (*)(Parameters...), function, Bindings...> {
  static_assert(sizeof...(Parameters) == sizeof...(Bindings), "one binding for each parameter");
  static SOFTMETAL_INSIDE void call(const Dispatch* dispatch, Lane* lane) {
    function(Bindings::template get<Parameters>(dispatch, lane)...);
  }
  static constexpr Argument kArguments[] = {Bindings::template describe<Parameters>()...};
};

template <class T>
SOFTMETAL_INSIDE T& threadgroup_variable(int number) {
  Lane* lane = this_lane();
  void* variable = lane->group->variable[number];
  return *static_cast<T*>(variable ? variable : softmetal_threadgroup_variable(lane, number, sizeof(T)));
}

}  // namespace softmetal
