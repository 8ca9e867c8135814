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

  template <class Soon, class Done>
  [[gnu::always_inline]] static void score(CodeLines lines, const std::int8_t* q, int n, Soon soon, Done done) {
    const auto rows = [=](int i, int half) __attribute__((always_inline)) {
      const std::int8_t* at = lines.data + i * lines.stride + half * 32;
      return HalfLine{{load(at), load(at + 16)}};
    };
    multiply(rows, q, n, soon, done);
  }
  template <class Soon, class Done>
  [[gnu::always_inline]] static void score_turned(const std::int8_t* block, const std::int8_t* q, int n, Soon soon, Done done) {
    multiply([=](int i, int half) __attribute__((always_inline)) { return turn_around(block + i * 64, half); }, q, n, soon, done);
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
  // Half of the positions for all heads, then the other half. Rows are made one step before they are multiplied: products that wait for
  // them would leave no room for what makes the next ones.
  template <class Rows, class Soon, class Done>
  [[gnu::always_inline]] static void multiply(Rows rows, const std::int8_t* q, int n, Soon soon, Done done) {
    std::int32_t sums[2 * Pairs][8];
    const auto add = [&](int half) __attribute__((always_inline)) {
      int32x4_t high[Pairs][2], low[Pairs][2];  // [2 heads][2 positions]
      for (int pair = 0; pair < Pairs; ++pair)
        for (int j = 0; j < 2; ++j) high[pair][j] = low[pair][j] = vdupq_n_s32(0);
      const std::int8_t* f = q;
      HalfLine next = rows(0, half);
#pragma clang loop unroll_count(2)
      for (int i = 0; i < n; ++i, f += 2 * Pairs * 16) {
        if (half == 0) soon(i);
        const HalfLine now = std::exchange(next, rows(i + 1, half));
        for (int pair = 0; pair < Pairs; ++pair) {
          const int8x16_t high_factor = vld1q_s8(f + pair * 16), low_factor = vld1q_s8(f + (Pairs + pair) * 16);
          for (int j = 0; j < 2; ++j) {
            const auto row = std::bit_cast<int8x16_t>(now.rows[j]);
            high[pair][j] = vmmlaq_s32(high[pair][j], high_factor, row);
            low[pair][j] = vmmlaq_s32(low[pair][j], low_factor, row);
          }
        }
      }
      for (int pair = 0; pair < Pairs; ++pair) {
        int64x2_t all[2];
        for (int j = 0; j < 2; ++j) all[j] = vreinterpretq_s64_s32(vmlaq_n_s32(low[pair][j], high[pair][j], 128));
        vst1q_s32(sums[2 * pair] + half * 4, vreinterpretq_s32_s64(vzip1q_s64(all[0], all[1])));
        vst1q_s32(sums[2 * pair + 1] + half * 4, vreinterpretq_s32_s64(vzip2q_s64(all[0], all[1])));
      }
    };
    add(0);
    add(1);
    for (int head = 0; head < 2 * Pairs; ++head)
      done(head, Vec{{vcvtq_f32_s32(vld1q_s32(sums[head])), vcvtq_f32_s32(vld1q_s32(sums[head] + 4))}});
  }

  static const std::uint8_t* weights_of(const std::int8_t* p) { return reinterpret_cast<const std::uint8_t*>(p); }
  static std::uint8_t* weights_of(std::int8_t* p) { return reinterpret_cast<std::uint8_t*>(p); }

  // What two heads have of something.
  [[gnu::always_inline]] static float32x4_t of_two(const float* x) {
    const float32x4_t two = vcombine_f32(vld1_f32(x), vld1_f32(x));
    return vzip1q_f32(two, two);
  }
};

}  // namespace

const CodedAttentionKernels kI8mmCodedAttention = {"i8mm", CodedAttention<Heads>::attend, CodedAttention<Heads>::kTogether};

}  // namespace lapidary::cpu
