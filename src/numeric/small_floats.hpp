// The floats of 4 and 8 bits that weights and their scales are stored as. Files that are compiled for instructions of their own include
// this, so nothing here has a name that the linker sees.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace lapidary::numeric {

// 2^(code - 127); code 0 is 2^-127.
[[gnu::always_inline]] inline float from_e8m0(std::uint8_t code) {
  return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<std::uint32_t>(code) << 23);
}

constexpr std::array<float, 16> kE2m1{0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

constexpr std::array<float, 256> make_e4m3() {
  std::array<float, 256> table{};
  for (int code = 0; code < 128; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    float value = exponent == 0 ? static_cast<float>(mantissa) : static_cast<float>(8 + mantissa);
    for (int e = std::max(exponent, 1); e < 10; ++e) value *= 0.5f;
    for (int e = 10; e < exponent; ++e) value *= 2.0f;
    if (code == 127) value = std::numeric_limits<float>::quiet_NaN();
    table[code] = value;
    table[code + 128] = -value;
  }
  return table;
}
constexpr std::array<float, 256> kE4m3 = make_e4m3();

}  // namespace lapidary::numeric
