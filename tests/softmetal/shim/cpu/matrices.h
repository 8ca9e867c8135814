// 8x8 matrices of a simdgroup. Who holds which elements is open, and all lanes are at the same call: here lane 0 holds
// them all and does the work. Only checked libraries look whether the others are there: a meeting costs more than a product.
#pragma once

namespace softmetal {

SOFTMETAL_INSIDE bool holds_matrices() { return this_lane()->lane == 0; }

typedef float MatrixRow __attribute__((ext_vector_type(8)));

template <class T>
SOFTMETAL_INSIDE MatrixRow matrix_row(const T (&elements)[8]) {
  MatrixRow row;
  for (int i = 0; i < 8; ++i) row[i] = float(elements[i]);
  return row;
}

}  // namespace softmetal

namespace metal {

template <class T, int Columns, int Rows>
struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "matrices of a simdgroup are 8x8");
  T elements[8][8];  // by rows

  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) {
    if (!softmetal::holds_matrices()) return;
    for (int row = 0; row < 8; ++row)
      for (int column = 0; column < 8; ++column) elements[row][column] = row == column ? diagonal : T(0);
  }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int Columns = 8, int Rows = 8>
inline simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Columns, Rows> matrix;
  if (!softmetal::holds_matrices()) return matrix;
  for (auto& row : matrix.elements)
    for (T& element : row) element = value;
  return matrix;
}

// `origin` is the column and the row in memory where the matrix begins.
template <class T>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& matrix, const T* source, ulong row_elements = 8, ulong2 origin = 0,
                           bool transposed = false) {
  if (!softmetal::holds_matrices()) return;
  const T* from = source + origin.y * row_elements + origin.x;
  for (ulong row = 0; row < 8; ++row)
    for (ulong column = 0; column < 8; ++column)
      matrix.elements[row][column] = transposed ? from[column * row_elements + row] : from[row * row_elements + column];
}
template <class T>
inline void simdgroup_store(const simdgroup_matrix<T, 8, 8>& matrix, T* target, ulong row_elements = 8, ulong2 origin = 0,
                            bool transposed = false) {
  if (!softmetal::holds_matrices()) return;
  T* to = target + origin.y * row_elements + origin.x;
  for (ulong row = 0; row < 8; ++row)
    for (ulong column = 0; column < 8; ++column)
      (transposed ? to[column * row_elements + row] : to[row * row_elements + column]) = matrix.elements[row][column];
}

// d = a * b + c
template <class D, class A, class B, class C>
SOFTMETAL_INSIDE void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                                    const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<C, 8, 8>& c,
                                                    SOFTMETAL_SITE) {
#ifdef SOFTMETAL_CHECKED
  softmetal::meet(softmetal::this_lane(), site);
#endif
  if (!softmetal::holds_matrices()) return;
  softmetal::MatrixRow factors[8], sums[8];
  for (int k = 0; k < 8; ++k) factors[k] = softmetal::matrix_row(b.elements[k]);
  for (int row = 0; row < 8; ++row) {
    sums[row] = 0.0f;
    for (int k = 0; k < 8; ++k)
      sums[row] = __builtin_elementwise_fma((softmetal::MatrixRow)(float(a.elements[row][k])), factors[k], sums[row]);
    sums[row] = softmetal::matrix_row(c.elements[row]) + sums[row];
  }
  for (int row = 0; row < 8; ++row)
    for (int i = 0; i < 8; ++i) d.elements[row][i] = D(sums[row][i]);
}
template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                               const simdgroup_matrix<B, 8, 8>& b, SOFTMETAL_SITE) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D>(D(0)), site);
}

}  // namespace metal
