// <metal_stdlib> for CUDA: a simdgroup is a warp, a threadgroup a block, threadgroup memory shared memory. The translator
// calls vector types m_float4 and so on, because CUDA has types of the plain names.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "vectors.h"

namespace metal {

template <class T, class U>
METAL_DEVICE T as_type(U value) {
  static_assert(sizeof(T) == sizeof(U), "as_type: sizes differ");
  T result;
  memcpy(&result, &value, sizeof result);
  return result;
}

#define METAL_FLOAT1(name, expression)                             \
  METAL_DEVICE float name(float x) { return expression; }          \
  METAL_DEVICE half name(half h) { return __float2half(name(__half2float(h))); } \
  template <int N>                                                 \
  METAL_DEVICE Vector<float, N> name(Vector<float, N> v) {         \
    for (int i = 0; i < N; ++i) v[i] = name(v[i]);                 \
    return v;                                                      \
  }
#define METAL_FLOAT2(name, expression)                             \
  METAL_DEVICE float name(float a, float b) { return expression; } \
  METAL_DEVICE half name(half a, half b) { return __float2half(name(__half2float(a), __half2float(b))); } \
  template <int N>                                                 \
  METAL_DEVICE Vector<float, N> name(Vector<float, N> a, Vector<float, N> b) { \
    for (int i = 0; i < N; ++i) a[i] = name(a[i], b[i]);           \
    return a;                                                      \
  }
METAL_FLOAT1(exp, ::expf(x))
METAL_FLOAT1(exp2, ::exp2f(x))
METAL_FLOAT1(log, ::logf(x))
METAL_FLOAT1(log2, ::log2f(x))
METAL_FLOAT1(sqrt, ::sqrtf(x))
METAL_FLOAT1(rsqrt, 1.0f / ::sqrtf(x))
METAL_FLOAT1(sin, ::sinf(x))
METAL_FLOAT1(cos, ::cosf(x))
METAL_FLOAT1(tanh, ::tanhf(x))
METAL_FLOAT1(floor, ::floorf(x))
METAL_FLOAT1(ceil, ::ceilf(x))
METAL_FLOAT1(trunc, ::truncf(x))
METAL_FLOAT1(round, ::roundf(x))
METAL_FLOAT1(rint, ::rintf(x))
METAL_FLOAT1(fabs, ::fabsf(x))
METAL_FLOAT1(abs, ::fabsf(x))
METAL_FLOAT2(pow, ::powf(a, b))
METAL_FLOAT2(fmod, ::fmodf(a, b))
METAL_FLOAT2(copysign, ::copysignf(a, b))
METAL_FLOAT2(divide, a / b)
METAL_FLOAT2(fmin, ::fminf(a, b))
METAL_FLOAT2(fmax, ::fmaxf(a, b))
METAL_FLOAT2(min, ::fminf(a, b))
METAL_FLOAT2(max, ::fmaxf(a, b))
#undef METAL_FLOAT1
#undef METAL_FLOAT2
METAL_DEVICE float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
METAL_DEVICE half fma(half a, half b, half c) { return __hfma(a, b, c); }
template <class T, int N>
METAL_DEVICE Vector<T, N> fma(Vector<T, N> a, Vector<T, N> b, Vector<T, N> c) {
  for (int i = 0; i < N; ++i) a[i] = fma(a[i], b[i], c[i]);
  return a;
}
METAL_DEVICE float clamp(float x, float low, float high) { return ::fminf(::fmaxf(x, low), high); }
METAL_DEVICE float mix(float a, float b, float c) { return a + (b - a) * c; }
METAL_DEVICE bool isnan(float x) { return x != x; }
METAL_DEVICE bool isinf(float x) { return ::fabsf(x) == INFINITY; }
METAL_DEVICE bool isfinite(float x) { return ::fabsf(x) < INFINITY; }
template <class T>
METAL_DEVICE T select(T a, T b, bool condition) {
  return condition ? b : a;
}
template <int N>
METAL_DEVICE float dot(Vector<float, N> a, Vector<float, N> b) {
  float sum = a[0] * b[0];
  for (int i = 1; i < N; ++i) sum = sum + a[i] * b[i];
  return sum;
}

#define METAL_INTEGER(T, U)                                                                             \
  METAL_DEVICE T min(T a, T b) { return b < a ? b : a; }                                                \
  METAL_DEVICE T max(T a, T b) { return a < b ? b : a; }                                                \
  METAL_DEVICE T clamp(T x, T low, T high) { return x < low ? low : high < x ? high : x; }              \
  METAL_DEVICE T popcount(T x) { return T(__popcll((unsigned long long)(U)x)); }                        \
  METAL_DEVICE T clz(T x) { return T(__clzll((long long)(U)x) - (64 - 8 * int(sizeof(T)))); }           \
  METAL_DEVICE T ctz(T x) { return x == T(0) ? T(8 * sizeof(T)) : T(__ffsll((long long)(U)x) - 1); }    \
  METAL_DEVICE T extract_bits(T x, uint offset, uint bits) {                                            \
    return bits == 0 ? T(0) : T(T((U)x << (8 * sizeof(T) - bits - offset)) >> (8 * sizeof(T) - bits));  \
  }                                                                                                     \
  METAL_DEVICE T insert_bits(T base, T inserted, uint offset, uint bits) {                              \
    const U mask = bits == 0 ? U(0) : U(U(U(~U(0)) >> (8 * sizeof(T) - bits)) << offset);               \
    return T(((U)base & U(~mask)) | (U((U)inserted << offset) & mask));                                 \
  }
METAL_INTEGER(char, uchar)
METAL_INTEGER(uchar, uchar)
METAL_INTEGER(short, ushort)
METAL_INTEGER(ushort, ushort)
METAL_INTEGER(int, uint)
METAL_INTEGER(uint, uint)
METAL_INTEGER(long, ulong)
METAL_INTEGER(ulong, ulong)
#undef METAL_INTEGER
METAL_DEVICE int abs(int x) { return x < 0 ? -x : x; }
METAL_DEVICE long abs(long x) { return x < 0 ? -x : x; }
METAL_DEVICE int mulhi(int a, int b) { return __mulhi(a, b); }
METAL_DEVICE uint mulhi(uint a, uint b) { return __umulhi(a, b); }
METAL_DEVICE long mulhi(long a, long b) { return long(__mul64hi(a, b)); }
METAL_DEVICE ulong mulhi(ulong a, ulong b) { return ulong(__umul64hi(a, b)); }
METAL_DEVICE uint reverse_bits(uint x) { return __brev(x); }
METAL_DEVICE uint rotate(uint x, uint bits) { return __funnelshift_l(x, x, bits); }

#define METAL_SAME       \
  using metal::exp;      \
  using metal::exp2;     \
  using metal::log;      \
  using metal::log2;     \
  using metal::sqrt;     \
  using metal::rsqrt;    \
  using metal::sin;      \
  using metal::cos;      \
  using metal::tanh;     \
  using metal::floor;    \
  using metal::ceil;     \
  using metal::trunc;    \
  using metal::round;    \
  using metal::rint;     \
  using metal::fabs;     \
  using metal::abs;      \
  using metal::pow;      \
  using metal::fmod;     \
  using metal::copysign; \
  using metal::divide;   \
  using metal::fmin;     \
  using metal::fmax;     \
  using metal::min;      \
  using metal::max;      \
  using metal::fma;      \
  using metal::clamp;    \
  using metal::isnan;    \
  using metal::isinf;
namespace precise {
METAL_SAME
}
namespace fast {
METAL_SAME
}
#undef METAL_SAME

// Beside CUDA's own atomics, which are functions of plain pointers.
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
template <class T>
METAL_DEVICE T atomic_load_explicit(const volatile _atomic<T>* object, memory_order) {
  return object->value;
}
template <class T>
METAL_DEVICE void atomic_store_explicit(volatile _atomic<T>* object, typename Same<T>::Type value, memory_order) {
  object->value = value;
}
#define METAL_ATOMIC(name, function)                                                                       \
  template <class T>                                                                                       \
  METAL_DEVICE T name(volatile _atomic<T>* object, typename Same<T>::Type value, memory_order) {           \
    return function(const_cast<T*>(&object->value), value);                                                \
  }
METAL_ATOMIC(atomic_exchange_explicit, ::atomicExch)
METAL_ATOMIC(atomic_fetch_add_explicit, ::atomicAdd)
METAL_ATOMIC(atomic_fetch_sub_explicit, ::atomicSub)
METAL_ATOMIC(atomic_fetch_and_explicit, ::atomicAnd)
METAL_ATOMIC(atomic_fetch_or_explicit, ::atomicOr)
METAL_ATOMIC(atomic_fetch_xor_explicit, ::atomicXor)
METAL_ATOMIC(atomic_fetch_min_explicit, ::atomicMin)
METAL_ATOMIC(atomic_fetch_max_explicit, ::atomicMax)
#undef METAL_ATOMIC

}  // namespace metal

#include "simdgroup.h"
#include "arguments.h"
