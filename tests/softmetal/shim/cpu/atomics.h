// Atomic functions, relaxed as all of Metal's are.
#pragma once

namespace metal {

enum memory_order { memory_order_relaxed };

template <class T>
struct _atomic {
  T value;
};
template <class T>
using atomic = _atomic<T>;
typedef _atomic<int> atomic_int;
typedef _atomic<uint> atomic_uint;
typedef _atomic<float> atomic_float;

}  // namespace metal

namespace softmetal {

// Bounds and races with other accesses are the checker's to see.
template <class T>
SOFTMETAL_INSIDE void touch(const volatile metal::_atomic<T>* object) {
#ifdef SOFTMETAL_CHECKED
  softmetal_atomic(object, sizeof(T));
#endif
}

template <class T>
struct Same {
  typedef T Type;
};

}  // namespace softmetal

namespace metal {

template <class T>
SOFTMETAL_INSIDE T atomic_load_explicit(const volatile _atomic<T>* object, memory_order) {
  softmetal::touch(object);
  return __atomic_load_n(&object->value, __ATOMIC_RELAXED);
}
template <class T>
SOFTMETAL_INSIDE void atomic_store_explicit(volatile _atomic<T>* object, typename softmetal::Same<T>::Type value,
                                            memory_order) {
  softmetal::touch(object);
  __atomic_store_n(&object->value, value, __ATOMIC_RELAXED);
}
template <class T>
SOFTMETAL_INSIDE bool atomic_compare_exchange_weak_explicit(volatile _atomic<T>* object, T* expected,
                                                            typename softmetal::Same<T>::Type desired, memory_order,
                                                            memory_order) {
  softmetal::touch(object);
  return __atomic_compare_exchange_n(&object->value, expected, desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#define SOFTMETAL_ATOMIC(name, builtin)                                                                         \
  template <class T>                                                                                            \
  SOFTMETAL_INSIDE T name(volatile _atomic<T>* object, typename softmetal::Same<T>::Type value, memory_order) { \
    softmetal::touch(object);                                                                                   \
    return builtin(&object->value, value, __ATOMIC_RELAXED);                                                    \
  }
SOFTMETAL_ATOMIC(atomic_exchange_explicit, __atomic_exchange_n)
SOFTMETAL_ATOMIC(atomic_fetch_add_explicit, __atomic_fetch_add)
SOFTMETAL_ATOMIC(atomic_fetch_sub_explicit, __atomic_fetch_sub)
SOFTMETAL_ATOMIC(atomic_fetch_and_explicit, __atomic_fetch_and)
SOFTMETAL_ATOMIC(atomic_fetch_or_explicit, __atomic_fetch_or)
SOFTMETAL_ATOMIC(atomic_fetch_xor_explicit, __atomic_fetch_xor)
SOFTMETAL_ATOMIC(atomic_fetch_min_explicit, __atomic_fetch_min)
SOFTMETAL_ATOMIC(atomic_fetch_max_explicit, __atomic_fetch_max)
#undef SOFTMETAL_ATOMIC

}  // namespace metal
