// Functions of float and half, scalars and vectors. Half is computed in float and rounded. What the text asks for under
// precise:: and fast:: is the same here.
#pragma once

namespace metal {

// For each size of vector, element by element.
#define SOFTMETAL_EACH1(name, V, N)             \
  inline V name(V x) {                          \
    V y;                                        \
    for (int i = 0; i < N; ++i) y[i] = name(x[i]); \
    return y;                                   \
  }
#define SOFTMETAL_EACH2(name, V, N)             \
  inline V name(V a, V b) {                     \
    V y;                                        \
    for (int i = 0; i < N; ++i) y[i] = name(a[i], b[i]); \
    return y;                                   \
  }
#define SOFTMETAL_EACH3(name, V, N)             \
  inline V name(V a, V b, V c) {                \
    V y;                                        \
    for (int i = 0; i < N; ++i) y[i] = name(a[i], b[i], c[i]); \
    return y;                                   \
  }
#define SOFTMETAL_VECTORS_OF(each, name, T) each(name, T##2, 2) each(name, T##3, 3) each(name, T##4, 4)

#define SOFTMETAL_FLOAT1(name, expression)                          \
  inline float name(float x) { return expression; }                 \
  inline half name(half h) { return half(name(float(h))); }         \
  SOFTMETAL_VECTORS_OF(SOFTMETAL_EACH1, name, float)                \
  SOFTMETAL_VECTORS_OF(SOFTMETAL_EACH1, name, half)
#define SOFTMETAL_FLOAT2(name, expression)                          \
  inline float name(float a, float b) { return expression; }        \
  inline half name(half g, half h) { return half(name(float(g), float(h))); } \
  SOFTMETAL_VECTORS_OF(SOFTMETAL_EACH2, name, float)                \
  SOFTMETAL_VECTORS_OF(SOFTMETAL_EACH2, name, half)
#define SOFTMETAL_FLOAT3(name, expression)                          \
  inline float name(float a, float b, float c) { return expression; } \
  inline half name(half f, half g, half h) { return half(name(float(f), float(g), float(h))); } \
  SOFTMETAL_VECTORS_OF(SOFTMETAL_EACH3, name, float)                \
  SOFTMETAL_VECTORS_OF(SOFTMETAL_EACH3, name, half)

SOFTMETAL_FLOAT1(exp, __builtin_expf(x))
SOFTMETAL_FLOAT1(exp2, __builtin_exp2f(x))
SOFTMETAL_FLOAT1(exp10, __builtin_exp2f(x * 3.32192809488736234787f))
SOFTMETAL_FLOAT1(log, __builtin_logf(x))
SOFTMETAL_FLOAT1(log2, __builtin_log2f(x))
SOFTMETAL_FLOAT1(log10, __builtin_log10f(x))
SOFTMETAL_FLOAT1(sqrt, __builtin_sqrtf(x))
SOFTMETAL_FLOAT1(rsqrt, 1.0f / __builtin_sqrtf(x))
SOFTMETAL_FLOAT1(sin, __builtin_sinf(x))
SOFTMETAL_FLOAT1(cos, __builtin_cosf(x))
SOFTMETAL_FLOAT1(tan, __builtin_tanf(x))
SOFTMETAL_FLOAT1(asin, __builtin_asinf(x))
SOFTMETAL_FLOAT1(acos, __builtin_acosf(x))
SOFTMETAL_FLOAT1(atan, __builtin_atanf(x))
SOFTMETAL_FLOAT1(sinh, __builtin_sinhf(x))
SOFTMETAL_FLOAT1(cosh, __builtin_coshf(x))
SOFTMETAL_FLOAT1(tanh, __builtin_tanhf(x))
SOFTMETAL_FLOAT1(floor, __builtin_floorf(x))
SOFTMETAL_FLOAT1(ceil, __builtin_ceilf(x))
SOFTMETAL_FLOAT1(trunc, __builtin_truncf(x))
SOFTMETAL_FLOAT1(round, __builtin_roundf(x))
SOFTMETAL_FLOAT1(rint, __builtin_rintf(x))
SOFTMETAL_FLOAT1(fract, __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f))
SOFTMETAL_FLOAT1(fabs, __builtin_fabsf(x))
SOFTMETAL_FLOAT1(abs, __builtin_fabsf(x))
SOFTMETAL_FLOAT1(sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? x : 0.0f)
SOFTMETAL_FLOAT1(saturate, __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f))
SOFTMETAL_FLOAT2(pow, __builtin_powf(a, b))
SOFTMETAL_FLOAT2(powr, __builtin_powf(a, b))
SOFTMETAL_FLOAT2(fmod, __builtin_fmodf(a, b))
SOFTMETAL_FLOAT2(atan2, __builtin_atan2f(a, b))
SOFTMETAL_FLOAT2(copysign, __builtin_copysignf(a, b))
SOFTMETAL_FLOAT2(fdim, __builtin_fdimf(a, b))
SOFTMETAL_FLOAT2(divide, a / b)
SOFTMETAL_FLOAT2(step, b < a ? 0.0f : 1.0f)
// Of a NaN and a number, the number.
SOFTMETAL_FLOAT2(fmin, __builtin_fminf(a, b))
SOFTMETAL_FLOAT2(fmax, __builtin_fmaxf(a, b))
SOFTMETAL_FLOAT2(min, __builtin_fminf(a, b))
SOFTMETAL_FLOAT2(max, __builtin_fmaxf(a, b))

#define SOFTMETAL_FMA(T) \
  inline T fma(T a, T b, T c) { return __builtin_elementwise_fma(a, b, c); }
SOFTMETAL_FMA(float)
SOFTMETAL_FMA(float2)
SOFTMETAL_FMA(float3)
SOFTMETAL_FMA(float4)
SOFTMETAL_FMA(half)
SOFTMETAL_FMA(half2)
SOFTMETAL_FMA(half3)
SOFTMETAL_FMA(half4)
#undef SOFTMETAL_FMA

SOFTMETAL_FLOAT3(mix, a + (b - a) * c)
SOFTMETAL_FLOAT3(clamp, __builtin_fminf(__builtin_fmaxf(a, b), c))

#define SOFTMETAL_TEST(name, builtin)                              \
  inline bool name(float x) { return builtin(x); }                 \
  inline bool name(half x) { return builtin(float(x)); }
SOFTMETAL_TEST(isnan, __builtin_isnan)
SOFTMETAL_TEST(isinf, __builtin_isinf)
SOFTMETAL_TEST(isfinite, __builtin_isfinite)
SOFTMETAL_TEST(signbit, __builtin_signbit)
#undef SOFTMETAL_TEST

inline float ldexp(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
inline float sincos(float x, float& cosine) {
  cosine = __builtin_cosf(x);
  return __builtin_sinf(x);
}

inline float dot(float2 a, float2 b) { return a.x * b.x + a.y * b.y; }
inline float dot(float3 a, float3 b) { return (a.x * b.x + a.y * b.y) + a.z * b.z; }
inline float dot(float4 a, float4 b) { return ((a.x * b.x + a.y * b.y) + a.z * b.z) + a.w * b.w; }
inline half dot(half2 a, half2 b) {
  return half(dot(__builtin_convertvector(a, float2), __builtin_convertvector(b, float2)));
}
inline half dot(half4 a, half4 b) {
  return half(dot(__builtin_convertvector(a, float4), __builtin_convertvector(b, float4)));
}
template <class V>
inline auto length(V vector) -> decltype(dot(vector, vector)) {
  return sqrt(dot(vector, vector));
}

// b where the condition holds.
template <class T>
inline T select(T a, T b, bool condition) {
  return condition ? b : a;
}
template <class V, class C>
inline auto select(V a, V b, C condition) -> decltype(condition.x, a.x, V()) {
  V y;
  for (int i = 0; i < softmetal::Shape<V>::kCount; ++i) y[i] = condition[i] ? b[i] : a[i];
  return y;
}

#define SOFTMETAL_SAME(X)                                                                                                 \
  X(exp)                                                                                                                  \
  X(exp2) X(exp10) X(log) X(log2) X(log10) X(sqrt) X(rsqrt) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(atan2) X(sinh) \
      X(cosh) X(tanh) X(floor) X(ceil) X(trunc) X(round) X(rint) X(fract) X(fabs) X(abs) X(sign) X(saturate) X(pow)       \
          X(powr) X(fmod) X(copysign) X(divide) X(fmin) X(fmax) X(min) X(max) X(fma) X(clamp) X(isnan) X(isinf)           \
              X(isfinite) X(ldexp) X(sincos) X(length)
#define SOFTMETAL_USE(name) using metal::name;
namespace precise {
SOFTMETAL_SAME(SOFTMETAL_USE)
}
namespace fast {
SOFTMETAL_SAME(SOFTMETAL_USE)
}
#undef SOFTMETAL_USE
#undef SOFTMETAL_SAME

}  // namespace metal
