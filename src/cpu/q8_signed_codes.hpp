// Products of signed bytes (q8_signed.hpp) with codes of fewer than 8 bits: they are signed bytes already, nothing has to be made up
// for but the bits of kWhole.
#pragma once

#include "cpu/q8_codes_arm.hpp"
#include "cpu/q8_signed.hpp"

namespace lapidary::cpu {
namespace {

// The activations of a group of one row, in the order in which codes come out of their bytes with the least work: as they are.
template <class Dot, Codes codes, int Group>
struct RowGroup {
  int8x16_t u[Group / 16];

  LAPIDARY_INLINE explicit RowGroup(const std::int8_t* q) {
    for (int i = 0; i < Group / 16; ++i) u[i] = vld1q_s8(q + 16 * i);
  }
  // Adds the products with the group of a weight row.
  LAPIDARY_INLINE int32x4_t add(int32x4_t sum, const std::uint8_t* group) const {
    int8x16_t c[Group / 16];
    load_codes<codes, Group>(group, c);
    for (int i = 0; i < Group / 16; ++i) sum = Dot::add(sum, c[i], u[i]);
    return sum;
  }
};

// The codes of a byte come apart: even and odd ones.
template <class Dot>
struct RowGroup<Dot, Codes::e2m1, 32> {
  int8x16_t even, odd;

  LAPIDARY_INLINE explicit RowGroup(const std::int8_t* q) {
    const int8x16_t first = vld1q_s8(q), second = vld1q_s8(q + 16);
    even = vuzp1q_s8(first, second);
    odd = vuzp2q_s8(first, second);
  }
  LAPIDARY_INLINE int32x4_t add(int32x4_t sum, const std::uint8_t* group) const {
    const uint8x16_t bytes = vld1q_u8(group);
    sum = Dot::add(sum, value_of_e2m1(vandq_u8(bytes, vdupq_n_u8(15))), even);
    return Dot::add(sum, value_of_e2m1(vshrq_n_u8(bytes, 4)), odd);
  }
};

// Four codes of 6 bits fill three bytes: 6 bits and 2 of the next code, 4 and 4, 2 and 6. So each byte is taken apart into two numbers
// below 64 that are multiplied by the activations of their codes: its low bits where they lie in their code, its high bits.
struct SixBits {
  using Bytes = std::array<std::array<std::uint8_t, 16>, 3>;
  Bytes up{}, down{};   // down: negative
  Bytes low{}, high{};  // which activations, of the 32 from 16 i on

  constexpr SixBits() {
    for (int i = 0; i < 3; ++i)
      for (int lane = 0; lane < 16; ++lane) {
        const int byte = 16 * i + lane, part = byte % 3, code = byte / 3 * 4 + part - 16 * i;
        up[i][lane] = static_cast<std::uint8_t>(2 * part);
        down[i][lane] = static_cast<std::uint8_t>(2 * part - 6);
        low[i][lane] = static_cast<std::uint8_t>(code);
        high[i][lane] = static_cast<std::uint8_t>(code + 1);
      }
  }
};
constexpr SixBits kSixBits;

template <class Dot, int Group>
  requires(Group >= 64)
struct RowGroup<Dot, Codes::u6, Group> {
  static constexpr int kBlocks = Group / 64;  // of 48 bytes
  int8x16_t low[kBlocks][3], high[kBlocks][3];

  LAPIDARY_INLINE explicit RowGroup(const std::int8_t* q) {
    for (int block = 0; block < kBlocks; ++block)
      for (int i = 0; i < 3; ++i) {
        const int8x16x2_t u = {vld1q_s8(q + 64 * block + 16 * i), vld1q_s8(q + 64 * block + 16 * i + 16)};
        low[block][i] = vqtbl2q_s8(u, vld1q_u8(kSixBits.low[i].data()));
        high[block][i] = vqtbl2q_s8(u, vld1q_u8(kSixBits.high[i].data()));
      }
  }
  LAPIDARY_INLINE int32x4_t add(int32x4_t sum, const std::uint8_t* group) const {
    for (int block = 0; block < kBlocks; ++block)
      for (int i = 0; i < 3; ++i) {
        const auto shifts = [&](const SixBits::Bytes& by) { return vreinterpretq_s8_u8(vld1q_u8(by[i].data())); };
        const uint8x16_t bytes = vld1q_u8(group + 48 * block + 16 * i);
        const uint8x16_t first = vandq_u8(vshlq_u8(bytes, shifts(kSixBits.up)), vdupq_n_u8(63));
        sum = Dot::add(sum, vreinterpretq_s8_u8(first), low[block][i]);
        sum = Dot::add(sum, vreinterpretq_s8_u8(vshlq_u8(bytes, shifts(kSixBits.down))), high[block][i]);
      }
    return sum;
  }
};

// The four rows of a step lie one after the other, so that the memory is asked for what lies ahead as one stream.
class OneStream {
 public:
  OneStream(const Q8Weights& w, const Streams& streams) : at_(streams.at[0] + (kStreams - 1) * w.row_bytes + kAheadBytes) {}

  // For a group of kBytes in each row. kNear: as a Cursor has it
  template <int kBytes, bool kNear>
  LAPIDARY_INLINE void fetch(int g, const std::uint32_t* scales) const {
    constexpr int kStepBytes = kStreams * kBytes;
    for (int line = 0; line < kStepBytes; line += 64) {
      const std::uint8_t* const at = at_ + g * kStepBytes + line;
      asm volatile("prfm pldl1keep, [%0]" : : "r"(at));
      if constexpr (kNear) asm volatile("prfm pldl2keep, [%0, %1]" : : "r"(at), "n"(kNearAhead));
    }
    if (g % 4 == 0) asm volatile("prfm pldl1keep, [%0, #512]" : : "r"(scales + g * kStreams));
  }

 private:
  static constexpr int kAheadBytes = 1024;
  const std::uint8_t* at_;
};

// Sums begin with the bits of kWhole, in one of their four.
LAPIDARY_INLINE int32x4_t no_dots() { return int32x4_t{std::bit_cast<std::int32_t>(kWhole), 0, 0, 0}; }

// One activation row.
template <class Dot, Codes codes, int Group>
void multiply_code_row(const Q8Weights& w, const Q8Tile& tile, float* y, Range steps) {
  constexpr int kGroupBytes = Group * bits_of(codes) / 8;
  const int groups = w.cols / Group;
  const auto* const factors = reinterpret_cast<const SignedFactors*>(tile.factors);
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    const OneStream ahead(w, streams);
    const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
    float32x4_t sums = vdupq_n_f32(0.0f);
    for (int g = 0; g < groups; ++g) {
      ahead.fetch<kGroupBytes, true>(g, scales);
      const RowGroup<Dot, codes, Group> activations(tile.q + g * Group);
      int32x4_t d[kStreams];
#pragma GCC unroll 4
      for (int i = 0; i < kStreams; ++i) d[i] = activations.add(no_dots(), streams.at[i] + g * kGroupBytes);
      sums = Scales<has_biases(codes)>(scales + g * kStreams).add_to(sums, sum_of_each(d), factors[g]);
    }
    float lanes[kStreams];
    vst1q_f32(lanes, sums);
    streams.store(lanes, w.rows, y);
  }
}

// Several activation rows.
template <class Dot, Codes codes, int Group>
void multiply_code_rows(const Q8Weights& w, const Q8Tile& tile, float* const* y, Range steps) {
  constexpr int kGroupBytes = Group * bits_of(codes) / 8, kVectors = Group / 16;
  const int groups = w.cols / Group, rows = tile.rows;
  for (int step = steps.begin; step < steps.end; ++step) {
    const Streams streams(w, step);
    const OneStream ahead(w, streams);
    const std::uint32_t* scales = w.scales + static_cast<std::size_t>(step) * groups * kStreams;
    const std::int8_t* q = tile.q;
    const auto* factors = reinterpret_cast<const SignedFactors*>(tile.factors);
    float32x4_t sums[kTileRows];
    for (float32x4_t& sum : sums) sum = vdupq_n_f32(0.0f);
    for (int g = 0; g < groups; ++g) {
      ahead.fetch<kGroupBytes, false>(g, scales);
      int8x16_t c[kStreams][kVectors];
#pragma GCC unroll 4
      for (int i = 0; i < kStreams; ++i) load_codes<codes, Group>(streams.at[i] + g * kGroupBytes, c[i]);
      const Scales<has_biases(codes)> of_group(scales + g * kStreams);
      for (int r = 0; r < rows; ++r, q += Group, ++factors) {
        int32x4_t d[kStreams];
        for (int32x4_t& sum : d) sum = no_dots();
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
          const int8x16_t u = vld1q_s8(q + 16 * j);
          for (int i = 0; i < kStreams; ++i) d[i] = Dot::add(d[i], c[i][j], u);
        }
        sums[r] = of_group.add_to(sums[r], sum_of_each(d), *factors);
      }
    }
    for (int r = 0; r < rows; ++r) {
      float lanes[kStreams];
      vst1q_f32(lanes, sums[r]);
      streams.store(lanes, w.rows, y[r]);
    }
  }
}

}  // namespace
}  // namespace lapidary::cpu
