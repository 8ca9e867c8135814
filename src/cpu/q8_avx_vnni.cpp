// The products of q8.hpp with AVX2, FMA and AVX-VNNI, dot products of bytes for vectors of 256 bits. This file alone is compiled
// for processors that have them; instructions.hpp says who may call it.
#include "cpu/q8_avx.hpp"

namespace lapidary::cpu {
namespace {

struct AvxVnni : Avx2 {
  LAPIDARY_INLINE static Ints add_dots(Ints sums, Ints weights, Ints q) { return _mm256_dpbusd_avx_epi32(sums, weights, q); }
};

}  // namespace

const Q8Kernels kAvxVnniQ8 = q8_kernels<ProductsX86<AvxVnni, WholeBytes>>("avx-vnni", Order::quarters);

}  // namespace lapidary::cpu
