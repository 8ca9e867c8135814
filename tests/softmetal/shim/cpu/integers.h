// Functions of integers, scalars and vectors.
#pragma once

namespace metal {

#define SOFTMETAL_INTEGER1(name, T, expression)            \
  inline T name(T x) { return T(expression); }             \
  SOFTMETAL_VECTORS_OF(SOFTMETAL_EACH1, name, T)
#define SOFTMETAL_INTEGER2(name, T, expression)            \
  inline T name(T a, T b) { return T(expression); }        \
  SOFTMETAL_VECTORS_OF(SOFTMETAL_EACH2, name, T)
#define SOFTMETAL_INTEGER3(name, T, expression)            \
  inline T name(T a, T b, T c) { return T(expression); }   \
  SOFTMETAL_VECTORS_OF(SOFTMETAL_EACH3, name, T)

// U is the unsigned type of the same size, W one with room for a product.
#define SOFTMETAL_INTEGER(T, U, W)                                                                                         \
  SOFTMETAL_INTEGER2(min, T, b < a ? b : a)                                                                                \
  SOFTMETAL_INTEGER2(max, T, a < b ? b : a)                                                                                \
  SOFTMETAL_INTEGER3(clamp, T, a < b ? b : c < a ? c : a)                                                                  \
  SOFTMETAL_INTEGER1(abs, T, x < T(0) ? -x : x)                                                                            \
  SOFTMETAL_INTEGER2(absdiff, T, a < b ? U(b) - U(a) : U(a) - U(b))                                                        \
  SOFTMETAL_INTEGER2(mulhi, T, W(a) * W(b) >> (8 * sizeof(T)))                                                             \
  SOFTMETAL_INTEGER1(popcount, T, __builtin_popcountll((unsigned long long)U(x)))                                          \
  SOFTMETAL_INTEGER1(clz, T, x == T(0) ? 8 * sizeof(T) : __builtin_clzll((unsigned long long)U(x)) - (64 - 8 * sizeof(T))) \
  SOFTMETAL_INTEGER1(ctz, T, x == T(0) ? 8 * sizeof(T) : __builtin_ctzll((unsigned long long)U(x)))                        \
  SOFTMETAL_INTEGER2(                                                                                                      \
      rotate, T, U(a) << (U(b) % (8 * sizeof(T))) | U(a) >> ((8 * sizeof(T) - U(b) % (8 * sizeof(T))) % (8 * sizeof(T))))  \
  inline T extract_bits(T x, uint offset, uint bits) {                                                                     \
    const uint width = 8 * sizeof(T);                                                                                      \
    return bits == 0 ? T(0) : T(T(U(x) << (width - bits - offset)) >> (width - bits));                                     \
  }                                                                                                                        \
  inline T insert_bits(T base, T inserted, uint offset, uint bits) {                                                       \
    const U mask = bits == 0 ? U(0) : U(U(U(~U(0)) >> (8 * sizeof(T) - bits)) << offset);                                  \
    return T((U(base) & U(~mask)) | (U(U(inserted) << offset) & mask));                                                    \
  }                                                                                                                        \
  inline T reverse_bits(T x) {                                                                                             \
    U y = 0;                                                                                                               \
    for (uint i = 0; i < 8 * sizeof(T); ++i) y = U(y << 1 | (U(x) >> i & 1));                                              \
    return T(y);                                                                                                           \
  }

SOFTMETAL_INTEGER(char, uchar, int)
SOFTMETAL_INTEGER(uchar, uchar, uint)
SOFTMETAL_INTEGER(short, ushort, int)
SOFTMETAL_INTEGER(ushort, ushort, uint)
SOFTMETAL_INTEGER(int, uint, long)
SOFTMETAL_INTEGER(uint, uint, ulong)
typedef __int128 SoftmetalWide;
typedef unsigned __int128 SoftmetalUnsignedWide;
SOFTMETAL_INTEGER(long, ulong, SoftmetalWide)
SOFTMETAL_INTEGER(ulong, ulong, SoftmetalUnsignedWide)

}  // namespace metal

#undef SOFTMETAL_INTEGER
#undef SOFTMETAL_INTEGER1
#undef SOFTMETAL_INTEGER2
#undef SOFTMETAL_INTEGER3
#undef SOFTMETAL_FLOAT1
#undef SOFTMETAL_FLOAT2
#undef SOFTMETAL_FLOAT3
#undef SOFTMETAL_VECTORS_OF
#undef SOFTMETAL_EACH1
#undef SOFTMETAL_EACH2
#undef SOFTMETAL_EACH3
