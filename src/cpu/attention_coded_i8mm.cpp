// Attention on codes of the fast mode with Arm's matrix products of bytes. Compiled for processors that have them; instructions.hpp
// says who may call it.
#include <arm_neon.h>

#include "cpu/attention_coded_tiles.hpp"

namespace lapidary::cpu {
namespace {

// A factor is 128 high + low: all products with the high ones, shifted, then all with the low ones.
template <int Pairs>
struct Heads {
  using Factor = std::int8_t;
  static constexpr int kFactors = 2;

  // to: [n / 8][high, low][pair][2 heads][8]
  static float round(int head, const float* from, int n, std::int8_t* to) {
    std::int16_t numbers[kMaxHeadDim];
    const float step = round_to_steps(from, n, numbers);
    for (int i = 0; i < n; i += 8) {
      const int16x8_t all = vld1q_s16(numbers + i), high = vrshrq_n_s16(all, 7), low = vsubq_s16(all, vshlq_n_s16(high, 7));
      std::int8_t* at = to + (i / 8 * 2 * Pairs + head / 2) * 16 + head % 2 * 8;
      vst1_s8(at, vmovn_s16(high));
      vst1_s8(at + Pairs * 16, vmovn_s16(low));
    }
    return step;
  }

  template <class Soon, class Done>
  [[gnu::always_inline]] static void multiply(CodeLines lines, const std::int8_t* factors, int first, int last, Soon soon, Done done) {
    int32x4_t all[Pairs][4];  // [2 heads][2 rows]
    for (auto& of_pair : all)
      for (int32x4_t& sum : of_pair) sum = vdupq_n_s32(0);
    const auto add = [&](int half) __attribute__((always_inline)) {
      const std::int8_t* at = lines.data + first * lines.stride;
      const std::int8_t* f = factors + (first * 2 + half) * Pairs * 16;
#pragma clang loop unroll_count(2)
      for (int i = first; i < last; ++i, at += lines.stride, f += 2 * Pairs * 16) {
        if (half == 0) soon(i);
        int8x16_t rows[4];
        for (int j = 0; j < 4; ++j) rows[j] = vld1q_s8(at + j * lines.pair_stride);
        for (int pair = 0; pair < Pairs; ++pair) {
          const int8x16_t factor = vld1q_s8(f + pair * 16);
          for (int j = 0; j < 4; ++j) all[pair][j] = vmmlaq_s32(all[pair][j], factor, rows[j]);
        }
      }
    };
    add(0);
    for (auto& of_pair : all)
      for (int32x4_t& sum : of_pair) sum = vshlq_n_s32(sum, 7);
    add(1);
    for (int pair = 0; pair < Pairs; ++pair) {
      int64x2_t rows[4];
      for (int j = 0; j < 4; ++j) rows[j] = vreinterpretq_s64_s32(all[pair][j]);
      done(2 * pair, to_floats(vzip1q_s64(rows[0], rows[1]), vzip1q_s64(rows[2], rows[3])));
      done(2 * pair + 1, to_floats(vzip2q_s64(rows[0], rows[1]), vzip2q_s64(rows[2], rows[3])));
    }
  }

  static Vec to_floats(int64x2_t low, int64x2_t high) {
    return {{vcvtq_f32_s32(vreinterpretq_s32_s64(low)), vcvtq_f32_s32(vreinterpretq_s32_s64(high))}};
  }
};

}  // namespace

const CodedAttentionKernels kI8mmCodedAttention = {"i8mm", CodedAttention<Heads>::attend, CodedAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
