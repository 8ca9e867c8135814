// 8x8 matrices of a simdgroup: each lane holds two neighbouring elements of a row.
#pragma once

namespace softmetal {

struct MatrixPlace {
  int row, column;
};
// The order that is commonly reported for Apple's devices.
inline MatrixPlace matrix_place(unsigned lane) {
  const int quad = int(lane / 4);
  return {(quad & 4) + int(lane / 2 % 4), (quad & 2) * 2 + int(lane % 2) * 2};
}

}  // namespace softmetal

namespace metal {

template <class T, int Columns, int Rows>
struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "matrices of a simdgroup are 8x8");
  typedef T Pair __attribute__((ext_vector_type(2)));
  Pair elements;
  // Of a matrix as it was loaded: what the lane needs of it for its elements of a product, on the left and on the right.
  bool is_loaded = false;
  T row[8];
  Pair columns[8];

  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) {
    const softmetal::MatrixPlace place = softmetal::matrix_place(softmetal::this_lane()->lane);
    elements[0] = place.row == place.column ? diagonal : T(0);
    elements[1] = place.row == place.column + 1 ? diagonal : T(0);
  }
  Pair& thread_elements() {
    is_loaded = false;
    return elements;
  }
  const Pair& thread_elements() const { return elements; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int Columns = 8, int Rows = 8>
inline simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Columns, Rows> matrix;
  matrix.elements[0] = matrix.elements[1] = value;
  return matrix;
}

// `origin` is the column and the row in memory where the matrix begins.
template <class T>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& matrix, const T* source, ulong row_elements = 8, ulong2 origin = 0,
                           bool transposed = false) {
  const softmetal::MatrixPlace place = softmetal::matrix_place(softmetal::this_lane()->lane);
  const T* from = source + origin.y * row_elements + origin.x;
  const auto element = [=](int row, int column) {
    return transposed ? from[ulong(column) * row_elements + ulong(row)] : from[ulong(row) * row_elements + ulong(column)];
  };
  for (int i = 0; i < 2; ++i) matrix.elements[i] = element(place.row, place.column + i);
#ifndef SOFTMETAL_CHECKED
  for (int k = 0; k < 8; ++k) {
    matrix.row[k] = element(place.row, k);
    for (int i = 0; i < 2; ++i) matrix.columns[k][i] = element(k, place.column + i);
  }
  matrix.is_loaded = true;
#endif
}
template <class T>
inline void simdgroup_store(simdgroup_matrix<T, 8, 8> matrix, T* target, ulong row_elements = 8, ulong2 origin = 0,
                            bool transposed = false) {
  const softmetal::MatrixPlace place = softmetal::matrix_place(softmetal::this_lane()->lane);
  T* to = target + origin.y * row_elements + origin.x;
  for (int i = 0; i < 2; ++i) {
    const ulong row = ulong(place.row), column = ulong(place.column + i);
    (transposed ? to[column * row_elements + row] : to[row * row_elements + column]) = matrix.elements[i];
  }
}

}  // namespace metal

namespace softmetal {

// In the slots of a meeting, two matrices by rows: what the lanes have left of the factors.
typedef float MatrixRow __attribute__((ext_vector_type(8)));
static_assert(sizeof(Simdgroup::slot[0]) == 2 * 8 * sizeof(MatrixRow), "the slots hold two matrices");

SOFTMETAL_INSIDE void multiply(Simdgroup* simdgroup, int area) {
  MatrixRow a[8], b[8];
  __builtin_memcpy(a, simdgroup->slot[area], sizeof a);
  __builtin_memcpy(b, simdgroup->slot[area][kSimdWidth / 2], sizeof b);
  for (int row = 0; row < 8; ++row) {
    MatrixRow sums = 0.0f;
    for (int k = 0; k < 8; ++k) sums = __builtin_elementwise_fma((MatrixRow)(a[row][k]), b[k], sums);
    __builtin_memcpy(simdgroup->product[area][row], &sums, sizeof sums);
  }
}

}  // namespace softmetal

namespace metal {

// d = a * b + c. Lanes that have loaded both factors need nothing of each other; in checked libraries they meet all the same.
template <class D, class A, class B, class C>
SOFTMETAL_INSIDE void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                                    simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c,
                                                    SOFTMETAL_SITE) {
  d.is_loaded = false;
  if (a.is_loaded && b.is_loaded) {
    typedef float Pair __attribute__((ext_vector_type(2)));
    Pair sums = 0.0f;
    for (int k = 0; k < 8; ++k) {
      const Pair right = {float(b.columns[k][0]), float(b.columns[k][1])};
      sums = __builtin_elementwise_fma(Pair(float(a.row[k])), right, sums);
    }
    for (int i = 0; i < 2; ++i) d.elements[i] = D(float(c.elements[i]) + sums[i]);
    return;
  }
  softmetal::Lane* lane = softmetal::this_lane();
  softmetal::Simdgroup* simdgroup = lane->simdgroup;
  const softmetal::MatrixPlace place = softmetal::matrix_place(lane->lane);
  const float left[2] = {float(a.elements[0]), float(a.elements[1])},
              right[2] = {float(b.elements[0]), float(b.elements[1])};
  unsigned char* slots = simdgroup->slot[simdgroup->area][0] + (place.row * 8 + place.column) * sizeof(float);
  __builtin_memcpy(slots, left, sizeof left);
  __builtin_memcpy(slots + sizeof(float[8][8]), right, sizeof right);
  const int area = softmetal::meet(lane, site);
  if (!simdgroup->has_result[area]) {
    softmetal::multiply(simdgroup, area);
    simdgroup->has_result[area] = true;
  }
  for (int i = 0; i < 2; ++i)
    d.elements[i] = D(float(c.elements[i]) + simdgroup->product[area][place.row][place.column + i]);
}
template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b,
                               SOFTMETAL_SITE) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D>(D(0)), site);
}

}  // namespace metal
