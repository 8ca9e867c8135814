// Scalar and vector types.
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef __bf16 bfloat;

#if defined(__x86_64__)
// The compiler calls this for float to bfloat; libgcc has it from GCC 13 on.
extern "C" inline __attribute__((used, noinline)) bfloat __truncsfbf2(float value) {
  const uint bits = __builtin_bit_cast(uint, value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const ushort rounded = nan ? ushort(bits >> 16 | 64) : ushort((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  return __builtin_bit_cast(bfloat, rounded);
}
#endif

#define SOFTMETAL_VECTORS(T)                            \
  typedef T T##2 __attribute__((ext_vector_type(2)));   \
  typedef T T##3 __attribute__((ext_vector_type(3)));   \
  typedef T T##4 __attribute__((ext_vector_type(4)));
SOFTMETAL_VECTORS(float)
SOFTMETAL_VECTORS(half)
SOFTMETAL_VECTORS(bfloat)
SOFTMETAL_VECTORS(char)
SOFTMETAL_VECTORS(uchar)
SOFTMETAL_VECTORS(short)
SOFTMETAL_VECTORS(ushort)
SOFTMETAL_VECTORS(int)
SOFTMETAL_VECTORS(uint)
SOFTMETAL_VECTORS(long)
SOFTMETAL_VECTORS(ulong)
#undef SOFTMETAL_VECTORS

// Packed vectors: the same numbers, aligned as one of them.
#define SOFTMETAL_PACKED(T)                                                              \
  typedef T packed_##T##2 __attribute__((ext_vector_type(2), aligned(__alignof__(T))));  \
  typedef T packed_##T##4 __attribute__((ext_vector_type(4), aligned(__alignof__(T))));  \
  struct packed_##T##3 {                                                                 \
    T x, y, z;                                                                           \
    operator T##3() const { return T##3{x, y, z}; }                                      \
  };
SOFTMETAL_PACKED(float)
SOFTMETAL_PACKED(half)
SOFTMETAL_PACKED(char)
SOFTMETAL_PACKED(uchar)
SOFTMETAL_PACKED(short)
SOFTMETAL_PACKED(ushort)
SOFTMETAL_PACKED(int)
SOFTMETAL_PACKED(uint)
#undef SOFTMETAL_PACKED

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define MAXFLOAT 3.402823466e+38f
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define HALF_MAX 65504.0h
#define M_PI_F 3.14159265358979323846f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_PI_F 0.63661977236758134308f
#define M_LN2_F 0.69314718055994530942f
#define M_LOG2E_F 1.44269504088896340736f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f

// A function of the shim itself: memory that it touches is not the kernel's.
#define SOFTMETAL_INSIDE __attribute__((disable_sanitizer_instrumentation)) inline

namespace softmetal {

template <class T>
struct Shape {
  typedef T Element;
  enum { kCount = 1 };
};
template <class T, int N>
struct Shape<T __attribute__((ext_vector_type(N)))> {
  typedef T Element;
  enum { kCount = N };
};

// In the text a vector is made as T4(...), which here is not a call: it becomes make<T4>(...).
template <class V, class S>
inline void put(V& vector, int& next, S value) {
  if constexpr (Shape<S>::kCount == 1) vector[next++] = typename Shape<V>::Element(value);
  else
    for (int i = 0; i < Shape<S>::kCount; ++i) vector[next++] = typename Shape<V>::Element(value[i]);
}
template <class V, class S>
inline V make(S value) {
  if constexpr (__is_same(V, S)) return value;
  else if constexpr (Shape<S>::kCount == 1) return (V)(typename Shape<V>::Element(value));
  else {
    static_assert(int(Shape<S>::kCount) == int(Shape<V>::kCount), "a vector of another size");
    return __builtin_convertvector(value, V);
  }
}
template <class V, class A, class B, class... Rest>
inline V make(A a, B b, Rest... rest) {
  V vector;
  int next = 0;
  put(vector, next, a);
  put(vector, next, b);
  (put(vector, next, rest), ...);
  return vector;
}

}  // namespace softmetal

namespace metal {

template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));

template <class T, class U>
inline T as_type(U value) {
  return __builtin_bit_cast(T, value);
}

template <class T>
struct numeric_limits;

#define SOFTMETAL_LIMITS(T, lowest_value, max_value)                     \
  template <>                                                            \
  struct numeric_limits<T> {                                             \
    static constexpr T lowest() { return lowest_value; }                 \
    static constexpr T min() { return lowest_value; }                    \
    static constexpr T max() { return max_value; }                       \
  };
SOFTMETAL_LIMITS(char, -128, 127)
SOFTMETAL_LIMITS(uchar, 0, 255)
SOFTMETAL_LIMITS(short, -32768, 32767)
SOFTMETAL_LIMITS(ushort, 0, 65535)
SOFTMETAL_LIMITS(int, -2147483647 - 1, 2147483647)
SOFTMETAL_LIMITS(uint, 0u, 4294967295u)
SOFTMETAL_LIMITS(long, -9223372036854775807l - 1, 9223372036854775807l)
SOFTMETAL_LIMITS(ulong, 0ul, 18446744073709551615ul)
#undef SOFTMETAL_LIMITS

template <>
struct numeric_limits<float> {
  static constexpr float lowest() { return -FLT_MAX; }
  static constexpr float min() { return FLT_MIN; }
  static constexpr float max() { return FLT_MAX; }
  static constexpr float infinity() { return INFINITY; }
  static constexpr float quiet_NaN() { return NAN; }
  static constexpr float epsilon() { return FLT_EPSILON; }
};
template <>
struct numeric_limits<half> {
  static constexpr half lowest() { return half(-65504.0f); }
  static constexpr half max() { return half(65504.0f); }
  static constexpr half infinity() { return half(INFINITY); }
};

// A comparison of vectors gives -1 where it holds.
template <class V>
inline bool any(V vector) {
  bool result = false;
  for (int i = 0; i < softmetal::Shape<V>::kCount; ++i) result = result || vector[i];
  return result;
}
template <class V>
inline bool all(V vector) {
  bool result = true;
  for (int i = 0; i < softmetal::Shape<V>::kCount; ++i) result = result && vector[i];
  return result;
}

}  // namespace metal
