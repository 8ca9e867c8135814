// Eight virtual float lanes, whatever the vector width of the target: one batch of eight, also where there are wider ones, or two of
// four. Sums over lanes have one fixed tree, so results do not depend on the width.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <xsimd/xsimd.hpp>

namespace lapidary::cpu {
namespace {

inline constexpr int kLanes = 8;

struct Vec {
  static constexpr int kBatchLanes = std::min(kLanes, static_cast<int>(xsimd::batch<float>::size));
  using Batch = xsimd::make_sized_batch_t<float, kBatchLanes>;
  static constexpr int kBatches = kLanes / kBatchLanes;

  Batch batch[kBatches];

  [[gnu::always_inline]] static Vec broadcast(float value) {
    Vec result;
    for (Batch& b : result.batch) b = Batch(value);
    return result;
  }

  [[gnu::always_inline]] static Vec load(const float* from) {
    Vec result;
    for (int i = 0; i < kBatches; ++i) result.batch[i] = Batch::load_unaligned(from + i * kBatchLanes);
    return result;
  }

  [[gnu::always_inline]] void store(float* to) const {
    for (int i = 0; i < kBatches; ++i) batch[i].store_unaligned(to + i * kBatchLanes);
  }
};

// a * b + c, rounded once where the target has the instruction
[[gnu::always_inline]] inline Vec fused(const Vec& a, const Vec& b, const Vec& c) {
  Vec result;
  for (int i = 0; i < Vec::kBatches; ++i) result.batch[i] = xsimd::fma(a.batch[i], b.batch[i], c.batch[i]);
  return result;
}

[[gnu::always_inline]] inline Vec operator+(const Vec& a, const Vec& b) {
  Vec result;
  for (int i = 0; i < Vec::kBatches; ++i) result.batch[i] = a.batch[i] + b.batch[i];
  return result;
}

[[gnu::always_inline]] inline Vec operator*(const Vec& a, const Vec& b) {
  Vec result;
  for (int i = 0; i < Vec::kBatches; ++i) result.batch[i] = a.batch[i] * b.batch[i];
  return result;
}

// The larger of each lane; b where a is not a number.
[[gnu::always_inline]] inline Vec larger(const Vec& a, const Vec& b) {
  Vec result;
  for (int i = 0; i < Vec::kBatches; ++i) {
    result.batch[i] = xsimd::select(a.batch[i] > b.batch[i], a.batch[i], b.batch[i]);
  }
  return result;
}

// lanes: [kLanes]
[[gnu::always_inline]] inline float sum_lanes(const float* lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// out[i] = sum_lanes of the i-th of so many sums. lanes: [count, kLanes]
[[gnu::always_inline]] inline void sum_lanes(const float* lanes, int count, float* out) {
  int i = 0;
  for (; i + 4 <= count; i += 4, lanes += 4 * kLanes) {
    using Four = float __attribute__((vector_size(16)));
    Four half[4];  // lanes j + lanes j + 4
    for (int j = 0; j < 4; ++j) {
      Four low, high;
      std::memcpy(&low, lanes + j * kLanes, sizeof low);
      std::memcpy(&high, lanes + j * kLanes + 4, sizeof high);
      half[j] = low + high;
    }
    const auto quarters = [](Four a, Four b) { return __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7); };
    const Four a = quarters(half[0], half[1]), b = quarters(half[2], half[3]);
    const Four sums = __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
    std::memcpy(out + i, &sums, sizeof sums);
  }
  for (; i < count; ++i, lanes += kLanes) out[i] = sum_lanes(lanes);
}

// The largest lane that is a number; minus infinity when there is none.
[[gnu::always_inline]] inline float largest_lane(const Vec& vec) {
  float lanes[kLanes];
  vec.store(lanes);
  float largest = -std::numeric_limits<float>::infinity();
  for (const float lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

}  // namespace
}  // namespace lapidary::cpu
