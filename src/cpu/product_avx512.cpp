// Products in float32 with AVX-512, the bits of those with AVX2. This file alone is compiled for processors that have it;
// instructions.hpp says who may call it.
#include "cpu/product_panel.hpp"
#include "numeric/dequant_row.hpp"

namespace lapidary::cpu {

const FloatProducts kAvx512FloatProducts = kFloatProducts<numeric::dequantise_row>;

}  // namespace lapidary::cpu
