// exp, log, tanh, gelu and silu as scalar code without branches or calls, which compilers vectorise in plain loops: a value is the same
// bits whether it is computed alone or in a vector of any width. Accurate to a few units in the last place.
//
// Always inline, here and in other headers of files that are compiled for instructions of their own: where a function is a symbol,
// the linker may take the copy with those instructions for everybody (tools/check-names looks for such symbols).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Before a loop over these functions whose turns do not need each other: a vector alone would wait for itself at every operation, so
// several are computed side by side; results may take the place of arguments, where a compiler on its own would go one by one.
#if defined(__clang__)
#define LAPIDARY_SIDE_BY_SIDE _Pragma("clang loop vectorize(assume_safety) interleave_count(4)")
#else
#define LAPIDARY_SIDE_BY_SIDE _Pragma("GCC ivdep")
#endif

namespace lapidary::numeric {

// What is not a number sorts below every number.
[[gnu::always_inline]] inline float or_lowest(float value) { return value == value ? value : -std::numeric_limits<float>::infinity(); }

#if defined(__ARM_FEATURE_FMA) || defined(__FMA__)
inline constexpr bool kFusedRoundsOnce = true;
#else
inline constexpr bool kFusedRoundsOnce = false;
#endif

// a * b + c, rounded once where the target has the instruction
[[gnu::always_inline]] inline float fused(float a, float b, float c) {
  if constexpr (kFusedRoundsOnce) return std::fma(a, b, c);
  else return a * b + c;
}

// exp(x) = 2^exponent * (1 + fraction)
struct ExpParts {
  std::int32_t exponent;
  float fraction;
};

// |x| < 2^21
[[gnu::always_inline]] inline ExpParts split_exp(float x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
  constexpr float kRound = 12582912.0f;
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // few bits: its multiples are exact
  constexpr float kLn2Low = -2.12194440e-4f;
  const float shifted = fused(x, kLog2E, kRound);
  const float n = shifted - kRound;
  const float r = fused(n, -kLn2Low, fused(n, -kLn2High, x));
  // exp(r) - 1 by its series; |r| <= ln(2)/2 makes the first term left out 1e-8.
  float series = 1.0f / 5040.0f;
  series = fused(series, r, 1.0f / 720.0f);
  series = fused(series, r, 1.0f / 120.0f);
  series = fused(series, r, 1.0f / 24.0f);
  series = fused(series, r, 1.0f / 6.0f);
  series = fused(series, r, 0.5f);
  const float fraction = fused(series * r, r, r);
  return {std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound), fraction};
}

// 2^n for n in -126..127
[[gnu::always_inline]] inline float power_of_two(std::int32_t n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
}

[[gnu::always_inline]] inline float exp(float x) {
  // Beyond these the result is 0 or infinite; a NaN passes both comparisons.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const ExpParts parts = split_exp(x);
  // In two factors, because the exponent of a tiny or huge result is out of the range of one.
  const std::int32_t half = parts.exponent >> 1;
  return (1.0f + parts.fraction) * power_of_two(half) * power_of_two(parts.exponent - half);
}

// x <= 0. The same bits, but 0 for what is below 2^-126.
[[gnu::always_inline]] inline float exp_negative(float x) {
  x = x < -88.0f ? -88.0f : x;
  const ExpParts parts = split_exp(x);
  return (1.0f + parts.fraction) * power_of_two(parts.exponent);  // the bits of 2^-127 are those of 0
}

// x > 0 and not subnormal. Accurate relative to the result, also near 1.
[[gnu::always_inline]] inline float log(float x) {
  constexpr std::uint32_t kRootHalf = 0x3f3504f3;  // the bits of sqrt(1/2)
  constexpr float kLn2High = 0.693359375f;         // few bits: its multiples are exact
  constexpr float kLn2Low = -2.12194440e-4f;
  // x = 2^n * m with m in [sqrt(1/2), sqrt(2)); log(m) = 2 atanh((m - 1) / (m + 1)) by its series.
  const std::uint32_t offset = std::bit_cast<std::uint32_t>(x) - kRootHalf;
  const float n = static_cast<float>(static_cast<std::int32_t>(offset) >> 23);
  const float f = std::bit_cast<float>((offset & 0x007fffffu) + kRootHalf) - 1.0f;
  const float s = f / (f + 2.0f);
  const float square = s * s;
  float series = 1.0f / 9.0f;
  series = fused(series, square, 1.0f / 7.0f);
  series = fused(series, square, 1.0f / 5.0f);
  series = fused(series, square, 1.0f / 3.0f);
  const float twice = s + s;
  return fused(n, kLn2High, fused(n, kLn2Low, fused(twice * square, series, twice)));
}

[[gnu::always_inline]] inline float tanh(float x) {
  // (e^2|x| - 1) / (e^2|x| + 1), with e^2|x| - 1 computed without cancellation; 1 to the last bit from |x| = 10 on.
  const float magnitude = std::fabs(x);
  const float twice = magnitude > 10.0f ? 20.0f : 2.0f * magnitude;
  const ExpParts parts = split_exp(twice);
  const float scale = power_of_two(parts.exponent);
  const float exp_minus_1 = fused(scale, parts.fraction, scale - 1.0f);
  return std::copysign(exp_minus_1 / (exp_minus_1 + 2.0f), x);
}

// x/2 * (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3)
[[gnu::always_inline]] inline float gelu(float x) {
  constexpr float kLinear = 1.59576912f;   // 2 sqrt(2/pi)
  constexpr float kCubic = 0.0713548163f;  // 2 sqrt(2/pi) * 0.044715
  // From 89 on exp is infinite and nothing is left of the result; what is not a number stays so by the numerator.
  const ExpParts parts = split_exp(std::fmin(std::fmax(-x * fused(kCubic, x * x, kLinear), -87.0f), 89.0f));
  return x / fused(1.0f + parts.fraction, power_of_two(parts.exponent), 1.0f);
}

// x * sigmoid(x)
[[gnu::always_inline]] inline float silu(float x) { return x / (1.0f + exp(-x)); }

}  // namespace lapidary::numeric
