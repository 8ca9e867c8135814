// Barriers, the functions of a simdgroup, and its matrices.
#pragma once

namespace metal {

enum class mem_flags : unsigned { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
METAL_DEVICE constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(unsigned(a) | unsigned(b)); }
METAL_DEVICE void threadgroup_barrier(mem_flags) { __syncthreads(); }
METAL_DEVICE void simdgroup_barrier(mem_flags) { __syncwarp(); }

constexpr unsigned kAllLanes = 0xffffffffu;

METAL_DEVICE uint lane_number() {
  uint lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

template <class T>
METAL_DEVICE T simd_shuffle(T value, ushort lane) {
  return __shfl_sync(kAllLanes, value, lane);
}
template <class T, int N>
METAL_DEVICE Vector<T, N> simd_shuffle(Vector<T, N> value, ushort lane) {
  for (int i = 0; i < N; ++i) value[i] = __shfl_sync(kAllLanes, value[i], lane);
  return value;
}
template <class T>
METAL_DEVICE T simd_broadcast(T value, ushort lane) {
  return simd_shuffle(value, lane);
}
template <class T>
METAL_DEVICE T simd_broadcast_first(T value) {
  return simd_shuffle(value, ushort(0));
}
template <class T>
METAL_DEVICE T simd_shuffle_xor(T value, ushort mask) {
  return simd_shuffle(value, ushort(lane_number() ^ mask));
}
template <class T>
METAL_DEVICE T simd_shuffle_down(T value, ushort delta) {
  const uint lane = lane_number();
  return simd_shuffle(value, ushort(lane + delta < 32 ? lane + delta : lane));
}
template <class T>
METAL_DEVICE T simd_shuffle_up(T value, ushort delta) {
  const uint lane = lane_number();
  return simd_shuffle(value, ushort(lane >= delta ? lane - delta : lane));
}

// As a tree over halves of the lanes.
#define METAL_REDUCTION(name, expression)                                      \
  template <class T>                                                           \
  METAL_DEVICE T name(T a) {                                                   \
    for (int half = 16; half > 0; half /= 2) {                                 \
      const T b = simd_shuffle_xor(a, ushort(half));                           \
      a = expression;                                                          \
    }                                                                          \
    return a;                                                                  \
  }
METAL_REDUCTION(simd_sum, a + b)
METAL_REDUCTION(simd_product, a * b)
METAL_REDUCTION(simd_max, max(a, b))
METAL_REDUCTION(simd_min, min(a, b))
METAL_REDUCTION(simd_and, a & b)
METAL_REDUCTION(simd_or, a | b)
METAL_REDUCTION(simd_xor, a ^ b)
#undef METAL_REDUCTION
METAL_DEVICE bool simd_any(bool value) { return __any_sync(kAllLanes, value); }
METAL_DEVICE bool simd_all(bool value) { return __all_sync(kAllLanes, value); }
template <class T>
METAL_DEVICE T simd_prefix_inclusive_sum(T value) {
  for (int step = 1; step < 32; step *= 2) {
    const T before = __shfl_up_sync(kAllLanes, value, step);
    if (lane_number() >= step) value = before + value;
  }
  return value;
}
template <class T>
METAL_DEVICE T simd_prefix_exclusive_sum(T value) {
  const T before = __shfl_up_sync(kAllLanes, simd_prefix_inclusive_sum(value), 1);
  return lane_number() == 0 ? T(0) : before;
}
class simd_vote {
 public:
  typedef ulong vote_t;

  METAL_DEVICE explicit simd_vote(vote_t votes = 0) : votes_(votes) {}
  METAL_DEVICE explicit operator vote_t() const { return votes_; }
  METAL_DEVICE bool any() const { return votes_ != 0; }
  METAL_DEVICE bool all() const { return votes_ == kAllLanes; }

 private:
  vote_t votes_;
};
METAL_DEVICE simd_vote simd_ballot(bool value) { return simd_vote(__ballot_sync(kAllLanes, value)); }

// 8x8 matrices: each lane holds two neighbouring elements of a row.
struct MatrixPlace {
  int row, column;
};
METAL_DEVICE MatrixPlace matrix_place(uint lane) {
  const int quad = int(lane / 4);
  return {(quad & 4) + int(lane / 2 % 4), (quad & 2) * 2 + int(lane % 2) * 2};
}
METAL_DEVICE uint lane_of(int row, int column) {
  return uint(((row & 4) | (column >> 2 << 1)) * 4 + (row & 3) * 2 + (column >> 1 & 1));
}

template <class T, int Columns, int Rows>
struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "matrices of a simdgroup are 8x8");
  Vector<T, 2> elements;

  simdgroup_matrix() = default;
  METAL_DEVICE explicit simdgroup_matrix(T diagonal) {
    const MatrixPlace place = matrix_place(lane_number());
    elements.x = place.row == place.column ? diagonal : T(0);
    elements.y = place.row == place.column + 1 ? diagonal : T(0);
  }
  METAL_DEVICE Vector<T, 2>& thread_elements() { return elements; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int Columns = 8, int Rows = 8>
METAL_DEVICE simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Columns, Rows> matrix;
  matrix.elements = Vector<T, 2>(value);
  return matrix;
}
template <class T>
METAL_DEVICE void simdgroup_load(simdgroup_matrix<T, 8, 8>& matrix, const T* source, ulong row_elements = 8,
                                 Vector<ulong, 2> origin = Vector<ulong, 2>(0ul), bool transposed = false) {
  const MatrixPlace place = matrix_place(lane_number());
  const T* from = source + origin.y * row_elements + origin.x;
  for (int i = 0; i < 2; ++i) {
    const ulong row = ulong(place.row), column = ulong(place.column + i);
    matrix.elements[i] = transposed ? from[column * row_elements + row] : from[row * row_elements + column];
  }
}
template <class T>
METAL_DEVICE void simdgroup_store(simdgroup_matrix<T, 8, 8> matrix, T* target, ulong row_elements = 8,
                                  Vector<ulong, 2> origin = Vector<ulong, 2>(0ul), bool transposed = false) {
  const MatrixPlace place = matrix_place(lane_number());
  T* to = target + origin.y * row_elements + origin.x;
  for (int i = 0; i < 2; ++i) {
    const ulong row = ulong(place.row), column = ulong(place.column + i);
    to[transposed ? column * row_elements + row : row * row_elements + column] = matrix.elements[i];
  }
}

// d = a * b + c by shuffles: the same sums in the same order as the software device, not the fastest way.
template <class D, class A, class B, class C>
METAL_DEVICE void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                                simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c) {
  const MatrixPlace place = matrix_place(lane_number());
  const float a0 = float(a.elements.x), a1 = float(a.elements.y), b0 = float(b.elements.x), b1 = float(b.elements.y);
  float sum0 = 0.0f, sum1 = 0.0f;
  for (int k = 0; k < 8; ++k) {
    const uint left = lane_of(place.row, k), right = lane_of(k, place.column);
    const float even = __shfl_sync(kAllLanes, a0, left), odd = __shfl_sync(kAllLanes, a1, left);
    const float factor = k % 2 ? odd : even;
    sum0 = ::fmaf(factor, __shfl_sync(kAllLanes, b0, right), sum0);
    sum1 = ::fmaf(factor, __shfl_sync(kAllLanes, b1, right), sum1);
  }
  d.elements.x = D(float(c.elements.x) + sum0);
  d.elements.y = D(float(c.elements.y) + sum1);
}
template <class D, class A, class B>
METAL_DEVICE void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                     simdgroup_matrix<B, 8, 8> b) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D>(D(0)));
}

}  // namespace metal
