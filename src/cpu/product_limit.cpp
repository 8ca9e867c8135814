#include "cpu/product_limit.hpp"

#include <algorithm>
#include <chrono>

#include "cpu/vec.hpp"

namespace lapidary::cpu {
namespace {

// Sums that do not wait for each other; as many as registers hold beside the factors.
constexpr int kSums = 24 / Vec::kBatches;

float multiply_vectors(int times) {
  volatile float unknown = 0.5f;  // or the compiler would know the result
  Vec sums[kSums];
  for (Vec& sum : sums) sum = Vec::broadcast(unknown);
  const Vec factor = Vec::broadcast(unknown);
  for (int i = 0; i < times; ++i)
    for (Vec& sum : sums) sum = fused(factor, factor, sum);
  float all = 0.0f, lanes[kLanes];
  for (const Vec& sum : sums) {
    sum.store(lanes);
    all += sum_lanes(lanes);
  }
  return all;
}

}  // namespace

double measure_product_limit(Team& team, const PackedProducts* packed) {
  constexpr int kTimes = 500'000, kPasses = 40;  // short, or others would have a share in every one
  const double each = packed ? packed->register_products : kSums * kLanes;
  double best_s = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    team.run([&](Part) { [[maybe_unused]] volatile float keep = packed ? packed->multiply_registers(kTimes) : multiply_vectors(kTimes); });
    best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return each * kTimes * team.size() / best_s;
}

}  // namespace lapidary::cpu
