#include "cpu/product_limit.hpp"

#include <algorithm>
#include <chrono>

namespace lapidary::cpu {

double measure_product_limit(Team& team, const Instructions& instructions, bool packed) {
  constexpr int kTimes = 500'000, kPasses = 40;  // short, or others would have a share in every one
  const FloatProducts& floats = *instructions.float_products;
  const PackedProducts* const matrices = packed ? instructions.tower_products : nullptr;
  const double each = matrices ? matrices->register_products : floats.register_products;
  const auto multiply_registers = matrices ? matrices->multiply_registers : floats.multiply_registers;
  double best_s = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    team.run([&](Part) { [[maybe_unused]] volatile float keep = multiply_registers(kTimes); });
    best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return each * kTimes * team.size() / best_s;
}

}  // namespace lapidary::cpu
