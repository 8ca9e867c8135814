// A checksum that is as quick as memory: any change of one word is found, by chance most others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lapidary {

inline std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  constexpr std::size_t kLanes = 32;
  constexpr std::uint32_t kOdd = 0x9e3779b1u;
  std::uint32_t sums[kLanes] = {}, words[kLanes];
  for (std::size_t at = 0; at < bytes.size(); at += sizeof words) {
    const std::size_t size = bytes.size() - at < sizeof words ? bytes.size() - at : sizeof words;
    if (size < sizeof words) std::memset(words, 0, sizeof words);
    std::memcpy(words, bytes.data() + at, size);
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] = sums[lane] * kOdd + words[lane];
  }
  std::uint64_t sum = bytes.size();
  for (const std::uint32_t lane : sums) sum = (sum ^ lane) * 0x9e3779b97f4a7c15u + 1;
  return sum ^ sum >> 29;
}

}  // namespace lapidary
