#include "cpu/read_limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "cpu/pages.hpp"
#include "cpu/team.hpp"

namespace lapidary::cpu {
namespace {

constexpr std::size_t kBytes = 250'000'000;  // no power of two: streams as far apart would meet in the same sets of a cache
constexpr int kPasses = 8;
constexpr int kWords = 8;  // of 64 bits, read at once

template <int Streams>
void read(const std::byte* memory, Part part) {
  const std::size_t stream = kBytes / Streams / static_cast<std::size_t>(part.count) / 64 * 64;
  const std::byte* at = memory + stream * Streams * static_cast<std::size_t>(part.index);
  std::uint64_t sum[kWords] = {};
  for (std::size_t offset = 0; offset < stream; offset += kWords * sizeof(std::uint64_t))
    for (int i = 0; i < Streams; ++i) {
      std::uint64_t words[kWords];
      std::memcpy(words, at + i * stream + offset, sizeof words);
      for (int w = 0; w < kWords; ++w) sum[w] ^= words[w];
    }
  std::uint64_t all = 0;
  for (const std::uint64_t word : sum) all |= word;
  [[maybe_unused]] volatile std::uint64_t keep = all;  // so that the reads are not left out
}

}  // namespace

link::ReadLimit measure_read_limit(int threads) {
  const auto memory = std::make_shared<Pages>(kBytes);
  memory->use_huge_pages();
  memory->commit();
  Team team(threads);
  double best_s = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    team.run([&](Part part) { pass % 2 ? read<4>(memory->data(), part) : read<1>(memory->data(), part); });
    best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return {kBytes / best_s, memory};
}

}  // namespace lapidary::cpu
