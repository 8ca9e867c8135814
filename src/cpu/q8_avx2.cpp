// The products of q8.hpp with AVX2 and FMA. This file alone is compiled for processors that have them; instructions.hpp
// says who may call it.
#include "cpu/q8_avx.hpp"

namespace lapidary::cpu {

const Q8Kernels kAvx2Q8 = q8_kernels<ProductsX86<Avx2, HalfBytes>>("avx2", Order::quarters);

}  // namespace lapidary::cpu
