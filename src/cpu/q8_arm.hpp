// Quantised groups on Arm, for the products of q8.hpp. Each file that includes this is compiled for instructions of its own, so
// nothing here may have a name that the linker sees.
#pragma once

#include <arm_neon.h>

#include <algorithm>

#include "cpu/q8_format.hpp"

namespace lapidary::cpu {
namespace {

constexpr float kSixteenth = 0.0625f;

LAPIDARY_INLINE int8x16_t narrowed(const int32x4_t* x) {
  return vcombine_s8(vmovn_s16(vcombine_s16(vmovn_s32(x[0]), vmovn_s32(x[1]))),
                     vmovn_s16(vcombine_s16(vmovn_s32(x[2]), vmovn_s32(x[3]))));
}

// A group of one row: its bytes, of pairs the odd elements first, and its factors a and a * sum. u_sum, v_sum: of the bytes u and v
template <int Group>
struct QuantisedGroup {
  int8x16_t q[Group / 16];
  float a = 0.0f, a_sum = 0.0f;
  std::int32_t u_sum = 0, v_sum = 0;
};

template <bool Paired, int Group>
LAPIDARY_INLINE float most_of(const float* x) {
  float32x4_t most[4];
  for (float32x4_t& m : most) m = vdupq_n_f32(0.0f);
#pragma GCC unroll 16
  for (int i = 0; i < Group; i += 8) {
    float32x4_t& first = most[i / 4 % 4];
    float32x4_t& second = most[i / 4 % 4 + 1];
    if constexpr (!Paired) {
      first = vmaxq_f32(first, vabsq_f32(vld1q_f32(x + i)));
      second = vmaxq_f32(second, vabsq_f32(vld1q_f32(x + i + 4)));
    } else {
      const float32x4x2_t pair = vld2q_f32(x + i);
      first = vmaxq_f32(first, vabsq_f32(pair.val[1]));
      second = vmaxq_f32(second, vabsq_f32(vfmaq_n_f32(pair.val[0], pair.val[1], -kSixteenth)));
    }
  }
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(most[0], most[1]), vmaxq_f32(most[2], most[3])));
}

// r: the steps in 1, a: a step
struct Step8 {
  float r, a;
};

template <bool Paired, int Group>
LAPIDARY_INLINE QuantisedGroup<Group> quantise_group(const float* x, Step8 step) {
  QuantisedGroup<Group> group;
  int32x4_t sums[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
  if constexpr (!Paired) {
    for (int i = 0; i < Group; i += 16) {
      int32x4_t u[4];
      for (int j = 0; j < 4; ++j) {
        u[j] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i + 4 * j), step.r));
        sums[j % 2] = vaddq_s32(sums[j % 2], u[j]);
      }
      group.q[i / 16] = narrowed(u);
    }
  } else {
    for (int i = 0; i < Group; i += 32) {
      int32x4_t u[4], v[4];
      for (int j = 0; j < 4; ++j) {
        const float32x4x2_t pair = vld2q_f32(x + i + 8 * j);
        const float32x4_t whole = vrndnq_f32(vmulq_n_f32(pair.val[1], step.r));
        u[j] = vcvtq_s32_f32(whole);
        v[j] = vcvtnq_s32_f32(vfmaq_n_f32(vmulq_n_f32(pair.val[0], step.r), whole, -kSixteenth));
        sums[0] = vaddq_s32(sums[0], u[j]);
        sums[1] = vaddq_s32(sums[1], v[j]);
      }
      group.q[i / 32] = narrowed(u);
      group.q[(Group / 2 + i / 2) / 16] = narrowed(v);
    }
  }
  group.a = step.a;
  const int32x4_t sum = Paired ? vmlaq_n_s32(vmulq_n_s32(sums[0], 17), sums[1], 16) : vaddq_s32(sums[0], sums[1]);
  group.a_sum = step.a * static_cast<float>(vaddvq_s32(sum));
  group.u_sum = vaddvq_s32(Paired ? sums[0] : sum);
  if constexpr (Paired) group.v_sum = vaddvq_s32(sums[1]);
  return group;
}

// The steps of a row's groups, `count` of them: all divisions together.
inline constexpr int kSteps = 32;
template <bool Paired, int Group>
LAPIDARY_INLINE void find_steps(const float* x, int count, Step8* steps) {
  float most[kSteps];
  for (int g = 0; g < count; ++g) most[g] = most_of<Paired, Group>(x + g * Group);
  for (int g = 0; g < count; ++g)
    steps[g] = {most[g] >= kLeastQ8 ? 127.0f / most[g] : 0.0f, most[g] / 127.0f * (Paired ? kSixteenth : 1.0f)};
}

}  // namespace
}  // namespace lapidary::cpu
