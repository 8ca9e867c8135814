// Products of signed bytes (q8_signed.hpp) with codes of fewer than 8 bits: they are signed bytes already, nothing has to be made up
// for but the bits of kWhole.
#pragma once

#include "cpu/q8_codes_arm.hpp"
#include "cpu/q8_signed.hpp"

namespace lapidary::cpu {
namespace {

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
