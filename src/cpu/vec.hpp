// Eight virtual float lanes, whatever the vector width of the target: one batch of eight, also where there are wider ones, or two of
// four. Sums over lanes have one fixed tree, so results do not depend on the width.
#pragma once

#include <algorithm>
#include <cstddef>
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
