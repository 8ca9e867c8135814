#include "numeric/dequant_row.hpp"

namespace lapidary::numeric {

void dequantise(const StoredRow& row, int begin, int count, float* out) { dequantise_row(row, begin, count, out); }

}  // namespace lapidary::numeric
