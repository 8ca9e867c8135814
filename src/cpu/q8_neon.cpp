// The products of q8.hpp with what every 64-bit Arm processor has: products of bytes, two by two in 16 bits.
#include "cpu/q8_signed_codes.hpp"

namespace lapidary::cpu {
namespace {

struct Neon {
  // Of two products the sum is at most 2 * 128 * 127.
  LAPIDARY_INLINE static int32x4_t add(int32x4_t sum, int8x16_t a, int8x16_t b) {
    return vpadalq_s16(sum, vmlal_high_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), a, b));
  }

  template <bool Paired, int Group>
  static void quantise(const float* const* x, const Q8Tile& tile, Range groups) {
    quantise_signed<Paired, Group>(x, tile, groups);
  }

  template <int Bits, int Group, int Rows>
  static void multiply(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    if constexpr (Rows == 1) multiply_row<Neon, Bits, Group>(w, tile, y[0], steps);
    else multiply_rows<Neon, Bits, Group, Rows>(w, tile, y, steps);
  }

  template <Codes codes, int Group>
  static void multiply_codes(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
    if (tile.rows == 1) multiply_code_row<Neon, codes, Group>(w, tile, y[0], steps);
    else multiply_code_rows<Neon, codes, Group>(w, tile, y, steps);
  }
};

}  // namespace

const Q8Kernels kNeonQ8 = q8_kernels<Neon>("neon", Order::neighbours);

}  // namespace lapidary::cpu
