// Products in float32 with AVX2 and FMA. This file alone is compiled for processors that have them; instructions.hpp says who may call
// it.
#include "cpu/product_panel.hpp"
#include "numeric/dequant_row.hpp"

namespace lapidary::cpu {

const FloatProducts kAvx2FloatProducts{multiply_panel<numeric::dequantise_row>, multiply_row<numeric::dequantise_row>};

}  // namespace lapidary::cpu
