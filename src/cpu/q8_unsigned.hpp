// The products of q8.hpp with weights of 4 bits in groups of 64, by Arm's dot products of unsigned bytes.
//
// u + 128 and v + 128 take the places of u and v, so that a byte of weights w is multiplied as it lies in the file, and its lower half
// as a shift leaves it. What that is too much depends on the weights alone, whose sums are known since they were loaded:
//   dot = sum w (u + 128) + sum 16 lo (v + 128) - 128 sum (w + 16 lo).
//
// Two vector operations go in a cycle, and four instructions in all: those beside them must be few. Compilers keep too many values at
// a time and store what they have no registers for.
#pragma once

#include "cpu/q8_dotprod_block.hpp"

namespace lapidary::cpu {
namespace {
namespace in_order {

inline constexpr int kUnsignedWords = kStreams + kStreams / 2;  // of a group: scales and biases, sums of 16 bits

// Of a group of a row, 16 of u and 16 of v in turns.
LAPIDARY_INLINE void quantise_unsigned(const float* const* x, const Q8Tile& tile, Range groups) {
  quantise_with_offsets<true, 64>(x, tile, groups, [](const QuantisedGroup<64>& group, std::int8_t* q) {
    for (int i = 0; i < 4; ++i) vst1q_s8(q + 16 * i, veorq_s8(group.q[i / 2 + i % 2 * 2], vdupq_n_s8(-128)));
    return 0;
  });
}

template <int Rows>
struct UnsignedFlow {
  const std::uint8_t* weights[kStreams];
  const std::uint8_t* ahead;
  const std::uint8_t* q;
  const std::uint32_t* scales;    // of the group before, like the factors
  const float* factors;
  int32x4_t pairs[Rows];          // of the first two streams
  int32x4_t dots[Rows][2];        // of the other two
  float32x4_t products[Rows];     // of the group before that one, like all below
  float32x4_t steps[Rows], bias;
  float32x2_t scaling[Rows];
  float32x4_t sums[Rows];
};

struct UnsignedConstants {
  float32x4_t whole = vdupq_n_f32(kWhole);
  uint32x4_t upper = vdupq_n_u32(0xffff0000u);
  uint16x4_t offset = vdup_n_u16(128);
  const std::int32_t* begin;  // what the first element of a sum begins with: the bits of kWhole
};

// The bytes of two streams, 16 of each, with all rows. q: [Rows, 64]
template <int Rows, int kPart>
LAPIDARY_INLINE void add_bytes(int32x4_t (*dots)[2], uint8x16_t first, uint8x16_t second, const std::uint8_t* q) {
  uint8x16_t low[2], u, v;
  const auto add_row = [&]<int kRow>() __attribute__((always_inline)) {
    load_at<kRow * 64 + kPart * 32>(q, u, v);
    if (kRow == 0) shift_up(low[0], first);
    add_dots(dots[kRow][0], first, u);
    if (kRow == 0) shift_up(low[1], second);
    add_dots(dots[kRow][1], second, u);
    add_dots(dots[kRow][0], low[0], v);
    add_dots(dots[kRow][1], low[1], v);
  };
  add_row.template operator()<0>();
  if constexpr (Rows > 1) add_row.template operator()<1>();
  if constexpr (Rows > 2) add_row.template operator()<2>();
  if constexpr (Rows > 3) add_row.template operator()<3>();
}

template <int Rows>
LAPIDARY_INLINE void begin_dots(int32x4_t (*dots)[2], const UnsignedConstants& c) {
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    load_first(c.begin, dots[r][0]);
    load_first(c.begin, dots[r][1]);
  }
}

template <int Rows>
LAPIDARY_INLINE void add_products(UnsignedFlow<Rows>& f) {
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    add_product(f.sums[r], f.products[r], f.steps[r]);
    add_product_by_second(f.sums[r], f.bias, f.scaling[r]);
  }
}

// A group, and between its products, where their operands are about to be there, what makes sums of those of the group before.
template <bool kFirst, int Rows>
LAPIDARY_INLINE void add_group(UnsignedFlow<Rows>& f, const UnsignedConstants& c) {
  uint8x16_t w[2][2];
  int32x4_t dots[Rows][2], all[Rows];
  uint32x4_t words;
  uint16x4_t excess;
  float32x4_t scale;
  add_products(f);
  load(f.weights[0], w[0][0], w[0][1]);
  load(f.weights[1], w[1][0], w[1][1]);
  fetch<0>(f.ahead);
  fetch_near<kNearAhead>(f.ahead);
  begin_dots<Rows>(dots, c);
  add_bytes<Rows, 0>(dots, w[0][0], w[1][0], f.q);
  if constexpr (!kFirst)
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) add_pairs(all[r], f.dots[r][0], f.dots[r][1]);
  add_bytes<Rows, 1>(dots, w[0][1], w[1][1], f.q);
  if constexpr (!kFirst)
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) add_pairs(all[r], f.pairs[r], all[r]);
  load(f.weights[2], w[0][0], w[0][1]);
  load(f.weights[3], w[1][0], w[1][1]);
  fetch<64>(f.ahead);
  fetch_near<kNearAhead + 64>(f.ahead);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) add_pairs(f.pairs[r], dots[r][0], dots[r][1]);
  begin_dots<Rows>(f.dots, c);
  if constexpr (!kFirst) {
    load(f.scales, words);
    load(f.scales, excess);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) load<sizeof(SignedFactors)>(f.factors, f.scaling[r]);
  }
  add_bytes<Rows, 0>(f.dots, w[0][0], w[1][0], f.q);
  if constexpr (!kFirst) {
    take_upper(scale, words, c.upper);
    take_lower(f.bias, words);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      subtract_products(all[r], excess, c.offset);
      multiply_by_first(f.steps[r], scale, f.scaling[r]);
    }
  }
  add_bytes<Rows, 1>(f.dots, w[0][1], w[1][1], f.q);
  if constexpr (!kFirst)
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) subtract(f.products[r], all[r], c.whole);
  f.q += Rows * 64;
  f.ahead += 128;
}

template <int Rows>
LAPIDARY_INLINE void end_groups(UnsignedFlow<Rows>& f, const UnsignedConstants& c) {
  int32x4_t all;
  uint32x4_t words;
  uint16x4_t excess;
  float32x4_t scale;
  add_products(f);
  load(f.scales, words);
  load(f.scales, excess);
  take_upper(scale, words, c.upper);
  take_lower(f.bias, words);
  for (int r = 0; r < Rows; ++r) {
    load<sizeof(SignedFactors)>(f.factors, f.scaling[r]);
    add_pairs(all, f.dots[r][0], f.dots[r][1]);
    add_pairs(all, f.pairs[r], all);
    subtract_products(all, excess, c.offset);
    multiply_by_first(f.steps[r], scale, f.scaling[r]);
    subtract(f.products[r], all, c.whole);
  }
  add_products(f);
}

// Few rows, each of which sums its products of a stream in a vector of its own.
template <int Rows>
void multiply_unsigned(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  const int groups = w.cols / 64;
  constexpr std::int32_t kBegin = std::bit_cast<std::int32_t>(kWhole);
  const UnsignedConstants constants{.begin = &kBegin};
  let_loads_see();
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    UnsignedFlow<Rows> f{};
    std::copy_n(streams.at, kStreams, f.weights);
    f.ahead = fetched_from(w, streams);
    f.q = reinterpret_cast<const std::uint8_t*>(tile.q);
    f.scales = w.scales + static_cast<std::size_t>(step) * groups * kUnsignedWords;
    f.factors = &reinterpret_cast<const SignedFactors*>(tile.factors)->a;
    add_group<true>(f, constants);
    for (int g = 1; g < groups; ++g) add_group<false>(f, constants);
    end_groups(f, constants);
    for (int r = 0; r < Rows; ++r) {
      float lanes[kStreams];
      vst1q_f32(lanes, f.sums[r]);
      streams.store(lanes, w.rows, y[r]);
    }
  }
}

}  // namespace in_order
}  // namespace
}  // namespace lapidary::cpu
