// One row of activations with weights of other codes than 4 and 8 bits, as far as there are blocks for them (q8_dotprod_block.hpp).
#pragma once

#include "cpu/q8_dotprod_mxfp4.hpp"
#include "cpu/q8_dotprod_six.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

template <Codes codes, int Group>
inline constexpr bool kHasRowBlock = (codes == Codes::u6 && Group == 64) || (codes == Codes::e2m1 && Group == 32);

// For a matrix that fits. Returns the steps that are left. q, factors: the row of activations, two factors for each group
template <class Dot, Codes codes, Order kOrder>
Range multiply_in_blocks(const Q8Weights& w, const std::int8_t* q, const float* factors, float* y, Range steps) {
  if constexpr (codes == Codes::u6) return multiply_six_bits<Dot, kOrder>(w, q, factors, y, steps);
  else return multiply_mxfp4<Dot, kOrder>(w, q, factors, y, steps);
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
