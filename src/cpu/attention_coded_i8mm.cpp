// Attention on codes of the fast mode with Arm's matrix products of bytes. Compiled for processors that have them; instructions.hpp
// says who may call it.
#include <arm_neon.h>

#include "cpu/attention_coded_tiles.hpp"

namespace lapidary::cpu {
namespace {

template <int Pairs>
struct Heads {
  using Factor = std::int8_t;
  static constexpr int kFactors = 2;

  // A number of a query is 128 high + low. to: [n / 8][high, low][pair][2 heads][8]
  static float round_query(int head, const float* from, int n, std::int8_t* to) {
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

  // to: [octet][pair][2 heads][8]
  static float round_weights(int head, const float* from, std::int8_t* to) {
    std::uint8_t bytes[graph::kTile];
    const float step = round_to_bytes(from, bytes);
    for (int i = 0; i < graph::kTile; i += 8) vst1_u8(weights_of(to) + (i / 8 * Pairs + head / 2) * 16 + head % 2 * 8, vld1_u8(bytes + i));
    return step;
  }

  // All products with the high bytes, shifted, then all with the low ones.
  template <class Soon, class Done>
  [[gnu::always_inline]] static void score(CodeLines lines, const std::int8_t* q, int n, Soon soon, Done done) {
    int32x4_t all[Pairs][4];  // [2 heads][2 rows]
    for (auto& of_pair : all)
      for (int32x4_t& sum : of_pair) sum = vdupq_n_s32(0);
    const auto add = [&](int half) __attribute__((always_inline)) {
      const std::int8_t* at = lines.data;
      const std::int8_t* f = q + half * Pairs * 16;
#pragma clang loop unroll_count(2)
      for (int i = 0; i < n; ++i, at += lines.stride, f += 2 * Pairs * 16) {
        if (half == 0) soon(i);
        int8x16_t rows[4];
        for (int j = 0; j < 4; ++j) rows[j] = vld1q_s8(at + j * 16);
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

  // Sums of 22 bits begin at kRound, and so are numbers without being converted. out: [pair][4][2 heads][2 elements]
  template <class Soon>
  [[gnu::always_inline]] static void mix(CodeLines lines, const std::int8_t* p, Soon soon, const float* keep, const float* steps, float* out) {
    const float32x4_t none = vdupq_n_f32(kRound);
    int32x4_t all[Pairs][4];
    for (auto& of_pair : all)
      for (int32x4_t& sum : of_pair) sum = vreinterpretq_s32_f32(none);
#pragma clang loop unroll_count(2)
    for (int i = 0; i < graph::kTile / 8; ++i) {
      soon(i);
      int8x16_t rows[4];
      for (int j = 0; j < 4; ++j) rows[j] = vld1q_s8(lines.data + i * lines.stride + j * 16);
      for (int pair = 0; pair < Pairs; ++pair) {
        const uint8x16_t weights = vld1q_u8(weights_of(p) + (i * Pairs + pair) * 16);
        for (int j = 0; j < 4; ++j) all[pair][j] = vusmmlaq_s32(all[pair][j], weights, rows[j]);
      }
    }
    for (int pair = 0; pair < Pairs; ++pair) {
      const float32x4_t its_keep = of_two(keep + 2 * pair), its_steps = of_two(steps + 2 * pair);
      for (int j = 0; j < 4; ++j) {
        float* to = out + (pair * 4 + j) * 4;
        const float32x4_t sums = vsubq_f32(vreinterpretq_f32_s32(all[pair][j]), none);
        vst1q_f32(to, vfmaq_f32(vmulq_f32(sums, its_steps), vld1q_f32(to), its_keep));
      }
    }
  }
  static int place(int head, int i) { return (head / 2 * 4 + i / 2) * 4 + head % 2 * 2 + i % 2; }

 private:
  static const std::uint8_t* weights_of(const std::int8_t* p) { return reinterpret_cast<const std::uint8_t*>(p); }
  static std::uint8_t* weights_of(std::int8_t* p) { return reinterpret_cast<std::uint8_t*>(p); }

  // What two heads have of something.
  [[gnu::always_inline]] static float32x4_t of_two(const float* x) {
    const float32x4_t two = vcombine_f32(vld1_f32(x), vld1_f32(x));
    return vzip1q_f32(two, two);
  }

  static Vec to_floats(int64x2_t low, int64x2_t high) {
    return {{vcvtq_f32_s32(vreinterpretq_s32_s64(low)), vcvtq_f32_s32(vreinterpretq_s32_s64(high))}};
  }
};

}  // namespace

const CodedAttentionKernels kI8mmCodedAttention = {"i8mm", CodedAttention<Heads>::attend, CodedAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
