// Products in float32 with AVX2 and FMA. This file alone is compiled for processors that have them; instructions.hpp says who may call
// it.
#include "cpu/product_panel.hpp"
#include "numeric/dequant_row.hpp"

namespace lapidary::cpu {

const FloatProducts kAvx2FloatProducts = kFloatProducts<numeric::dequantise_row>;

}  // namespace lapidary::cpu
