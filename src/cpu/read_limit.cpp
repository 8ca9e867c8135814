#include "cpu/read_limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "cpu/memory.hpp"
#include "cpu/team.hpp"

namespace lapidary::cpu {
namespace {

constexpr std::size_t kBytes = 250'000'000;  // no power of two: streams as far apart would meet in the same sets of a cache
constexpr int kPasses = 8, kStreams = 4;
constexpr std::size_t kPiece = 64;  // bytes that are added up at once

struct Sum {
  std::uint64_t lanes[kPiece / sizeof(std::uint64_t)] = {};

  void add(const std::byte* from) {
    std::uint64_t words[kPiece / sizeof(std::uint64_t)];
    std::memcpy(words, from, kPiece);
    for (std::size_t i = 0; i < std::size(lanes); ++i) lanes[i] ^= words[i];
  }
};

}  // namespace

double measure_read_limit(int threads) {
  Memory memory(kBytes);
  memory.use_huge_pages();
  memory.commit();
  Team team(threads);
  double best_s = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    team.run([&](Part part) {
      const std::size_t stream = kBytes / kPiece / kStreams / static_cast<std::size_t>(part.count) * kPiece;
      const std::byte* at = memory.data() + stream * kStreams * static_cast<std::size_t>(part.index);
      Sum sums[kStreams];
      for (std::size_t offset = 0; offset < stream; offset += kPiece)
        for (int i = 0; i < kStreams; ++i) sums[i].add(at + i * stream + offset);
      std::uint64_t all = 0;
      for (const Sum& sum : sums)
        for (const std::uint64_t lane : sum.lanes) all |= lane;
      [[maybe_unused]] volatile std::uint64_t keep = all;  // so that the reads are not left out
    });
    best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return kBytes / best_s;
}

}  // namespace lapidary::cpu
