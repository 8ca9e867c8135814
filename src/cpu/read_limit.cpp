#include "cpu/read_limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>

#include "cpu/cores.hpp"
#include "cpu/pages.hpp"
#include "cpu/team.hpp"

namespace lapidary::cpu {
namespace {

constexpr std::size_t kUnit = 250'000'000;  // bytes; no power of two: streams as far apart would meet in the same sets of a cache
constexpr int kPasses = 8;
constexpr int kWords = 8;  // of 64 bits, read at once

// Several times what caches hold: the next pass would find the rest there.
std::size_t bytes_to_read() { return (4 * last_cache_bytes() / kUnit + 1) * kUnit; }

template <int Streams>
void read(std::span<const std::byte> memory, Part part) {
  const std::size_t stream = memory.size() / Streams / static_cast<std::size_t>(part.count) / 64 * 64;
  const std::byte* at = memory.data() + stream * Streams * static_cast<std::size_t>(part.index);
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
  const auto memory = std::make_shared<Pages>(bytes_to_read());
  memory->use_huge_pages();
  memory->commit();
  Team team(threads);
  double best_s = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    team.run([&](Part part) { pass % 2 ? read<4>(memory->bytes(), part) : read<1>(memory->bytes(), part); });
    best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return {static_cast<double>(memory->bytes().size()) / best_s, memory};
}

}  // namespace lapidary::cpu
