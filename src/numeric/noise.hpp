// The noise behind a choice: Philox4x32-10, a function of (seed, stream, index of the generated token, candidate token) and
// of nothing else, so that a choice comes out the same in whichever row, round or batch it is made.
#pragma once

#include <cstdint>

#include "numeric/math.hpp"

namespace lapidary::numeric {

inline constexpr int kNoiseLanes = 16;  // blocks computed at once
inline constexpr int kBlockWords = 4;

struct NoiseKey {
  std::uint64_t seed = 0;
  std::uint64_t index = 0;  // below 2^56; the 8 bits above are 0 for choosing tokens
  std::uint32_t stream = 0;
};

// The noise of token x is word x % 4 of block x / 4.
// blocks: [kNoiseLanes]; words: [kBlockWords][kNoiseLanes]
inline void noise_words(NoiseKey key, const std::uint32_t* blocks, std::uint32_t (*words)[kNoiseLanes]) {
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53u, kMultiplier2 = 0xcd9e8d57u;
  constexpr std::uint32_t kStep0 = 0x9e3779b9u, kStep1 = 0xbb67ae85u;
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  for (int i = 0; i < kNoiseLanes; ++i) {
    std::uint32_t c0 = low(key.index), c1 = high(key.index), c2 = blocks[i], c3 = key.stream;
    std::uint32_t key0 = low(key.seed), key1 = high(key.seed);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = kMultiplier0 * c0, product2 = kMultiplier2 * c2;
      c0 = high(product2) ^ c1 ^ key0;
      c1 = low(product2);
      c2 = high(product0) ^ c3 ^ key1;
      c3 = low(product0);
      key0 += kStep0;
      key1 += kStep1;
    }
    words[0][i] = c0;
    words[1][i] = c1;
    words[2][i] = c2;
    words[3][i] = c3;
  }
}

// -ln((word + 0.5) * 2^-32), accurate relative to itself. In float32 the largest words would round to ln(1) = 0 and win every
// comparison, so in the upper half the distance to 1 is what is kept.
inline float exponential(std::uint32_t word) {
  const bool upper = word >> 31;
  const float distance = (static_cast<float>(static_cast<std::int32_t>(upper ? ~word : word)) + 0.5f) * 0x1p-32f;
  const float u = upper ? 1.0f - distance : distance;
  const float lost = upper ? (1.0f - u) - distance : 0.0f;  // u + lost is what was meant; matters where u is near 1
  return -log(u) - lost;
}

}  // namespace lapidary::numeric
