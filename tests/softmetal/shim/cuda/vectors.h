// Scalar and vector types.
#pragma once

#define METAL_DEVICE __device__ __forceinline__

typedef __half half;
typedef __nv_bfloat16 bfloat;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#undef FLT_MAX
#undef MAXFLOAT
#define FLT_MAX 3.402823466e+38f
#define MAXFLOAT 3.402823466e+38f
#define M_PI_F 3.14159265358979323846f

namespace metal {

template <class T, int N>
struct Vector;

template <class T>
struct Same {
  typedef T Type;
};

// The translator writes v.zw as v.swizzle(Axes<2, 3>()).
template <int... I>
struct Axes {};

template <class T>
struct alignas(2 * sizeof(T)) Vector<T, 2> {
  T x, y;

  Vector() = default;
  METAL_DEVICE Vector(T all) : x(all), y(all) {}
  METAL_DEVICE Vector(T a, T b) : x(a), y(b) {}
  template <class U>
  METAL_DEVICE explicit Vector(Vector<U, 2> v) : x(T(v.x)), y(T(v.y)) {}
  METAL_DEVICE T& operator[](int i) { return (&x)[i]; }
  METAL_DEVICE T operator[](int i) const { return (&x)[i]; }
  template <int... I>
  METAL_DEVICE Vector<T, sizeof...(I)> swizzle(Axes<I...>) const {
    return {(*this)[I]...};
  }
};
template <class T>
struct alignas(4 * sizeof(T)) Vector<T, 3> {
  T x, y, z;

  Vector() = default;
  METAL_DEVICE Vector(T all) : x(all), y(all), z(all) {}
  METAL_DEVICE Vector(T a, T b, T c) : x(a), y(b), z(c) {}
  METAL_DEVICE Vector(Vector<T, 2> low, T c) : x(low.x), y(low.y), z(c) {}
  METAL_DEVICE Vector(T a, Vector<T, 2> high) : x(a), y(high.x), z(high.y) {}
  template <class U>
  METAL_DEVICE explicit Vector(Vector<U, 3> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
  METAL_DEVICE T& operator[](int i) { return (&x)[i]; }
  METAL_DEVICE T operator[](int i) const { return (&x)[i]; }
  template <int... I>
  METAL_DEVICE Vector<T, sizeof...(I)> swizzle(Axes<I...>) const {
    return {(*this)[I]...};
  }
};
template <class T>
struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) Vector<T, 4> {
  T x, y, z, w;

  Vector() = default;
  METAL_DEVICE Vector(T all) : x(all), y(all), z(all), w(all) {}
  METAL_DEVICE Vector(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  METAL_DEVICE Vector(Vector<T, 2> low, Vector<T, 2> high) : x(low.x), y(low.y), z(high.x), w(high.y) {}
  METAL_DEVICE Vector(T a, Vector<T, 2> middle, T d) : x(a), y(middle.x), z(middle.y), w(d) {}
  METAL_DEVICE Vector(T a, T b, Vector<T, 2> high) : x(a), y(b), z(high.x), w(high.y) {}
  METAL_DEVICE Vector(Vector<T, 2> low, T c, T d) : x(low.x), y(low.y), z(c), w(d) {}
  METAL_DEVICE Vector(Vector<T, 3> low, T d) : x(low.x), y(low.y), z(low.z), w(d) {}
  template <class U>
  METAL_DEVICE explicit Vector(Vector<U, 4> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
  METAL_DEVICE T& operator[](int i) { return (&x)[i]; }
  METAL_DEVICE T operator[](int i) const { return (&x)[i]; }
  template <int... I>
  METAL_DEVICE Vector<T, sizeof...(I)> swizzle(Axes<I...>) const {
    return {(*this)[I]...};
  }
};

#define METAL_OPERATOR(op)                                                     \
  template <class T, int N>                                                    \
  METAL_DEVICE Vector<T, N> operator op(Vector<T, N> a, Vector<T, N> b) {      \
    for (int i = 0; i < N; ++i) a[i] = T(a[i] op b[i]);                        \
    return a;                                                                  \
  }                                                                            \
  template <class T, int N>                                                    \
  METAL_DEVICE Vector<T, N> operator op(Vector<T, N> a, typename Same<T>::Type b) { \
    for (int i = 0; i < N; ++i) a[i] = T(a[i] op b);                           \
    return a;                                                                  \
  }                                                                            \
  template <class T, int N>                                                    \
  METAL_DEVICE Vector<T, N> operator op(typename Same<T>::Type a, Vector<T, N> b) { \
    for (int i = 0; i < N; ++i) b[i] = T(a op b[i]);                           \
    return b;                                                                  \
  }                                                                            \
  template <class T, int N>                                                    \
  METAL_DEVICE Vector<T, N>& operator op##=(Vector<T, N>& a, typename Same<Vector<T, N>>::Type b) { \
    return a = a op b;                                                         \
  }
METAL_OPERATOR(+)
METAL_OPERATOR(-)
METAL_OPERATOR(*)
METAL_OPERATOR(/)
METAL_OPERATOR(%)
METAL_OPERATOR(&)
METAL_OPERATOR(|)
METAL_OPERATOR(^)
METAL_OPERATOR(<<)
METAL_OPERATOR(>>)
#undef METAL_OPERATOR

template <class T, int N>
using vec = Vector<T, N>;

}  // namespace metal

#define METAL_VECTORS(T)                \
  typedef metal::Vector<T, 2> m_##T##2; \
  typedef metal::Vector<T, 3> m_##T##3; \
  typedef metal::Vector<T, 4> m_##T##4;
METAL_VECTORS(float)
METAL_VECTORS(half)
METAL_VECTORS(bfloat)
METAL_VECTORS(char)
METAL_VECTORS(uchar)
METAL_VECTORS(short)
METAL_VECTORS(ushort)
METAL_VECTORS(int)
METAL_VECTORS(uint)
METAL_VECTORS(long)
METAL_VECTORS(ulong)
#undef METAL_VECTORS

// Packed vectors: the same numbers, aligned as one of them.
#define METAL_PACKED(T)                                              \
  struct packed_##T##2 {                                             \
    T x, y;                                                          \
    METAL_DEVICE operator m_##T##2() const { return {x, y}; }        \
  };                                                                 \
  struct packed_##T##3 {                                             \
    T x, y, z;                                                       \
    METAL_DEVICE operator m_##T##3() const { return {x, y, z}; }     \
  };                                                                 \
  struct packed_##T##4 {                                             \
    T x, y, z, w;                                                    \
    METAL_DEVICE operator m_##T##4() const { return {x, y, z, w}; }  \
  };
METAL_PACKED(float)
METAL_PACKED(half)
METAL_PACKED(char)
METAL_PACKED(uchar)
METAL_PACKED(short)
METAL_PACKED(ushort)
METAL_PACKED(int)
METAL_PACKED(uint)
#undef METAL_PACKED
