// Vectors of K/V as codes of 8 or 4 bits and one scale. Before it is rounded a vector is rotated by a fixed signed Hadamard matrix, which
// spreads what is large over all components. A vector is coded from itself alone.
//
// Additions, products and comparisons in a given order, nothing fused: the same bytes on every machine. Sizes n are powers of two from
// kMinCoded to kMaxCoded.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace lapidary::numeric {

inline constexpr int kMinCoded = 8, kMaxCoded = 2048;

constexpr bool can_be_coded(std::int32_t n) { return n >= kMinCoded && n <= kMaxCoded && std::has_single_bit(static_cast<std::uint32_t>(n)); }

// What the nibbles of q4 stand for, times a scale: the best points for a Gaussian, and whole numbers. Every file has its
// own, so that files with instructions of their own share no name with others.
constexpr std::array<std::int8_t, 16> kQ4Codes = {-127, -96, -75, -58, -44, -31, -18, -6, 6, 18, 31, 44, 58, 75, 96, 127};

// x = H (signs * x), without a factor: H H = n. x: [n]
void rotate(float* x, int n);
// What was rotated: x = signs * (H x) / n
void rotate_back(float* x, int n);

// Rotated numbers to codes; the scale is returned: 0 for what is too small to be told from nothing, NaN where something is not a
// number or too large. y: [n]; codes: [n]; bytes: [n / 2], byte b has nibble b in its low and nibble b + n / 2 in its high half
float encode_q8(const float* y, int n, std::int8_t* codes);
float encode_q4(const float* y, int n, std::uint8_t* bytes);

// What they stand for, rotated back. x: [n]
void decode_q8(const std::int8_t* codes, float scale, int n, float* x);
void decode_q4(const std::uint8_t* bytes, float scale, int n, float* x);

}  // namespace lapidary::numeric
