#include <cmath>
#include <numeric>

#include "metal/check/cases.hpp"
#include "metal/read_limit.hpp"

namespace lapidary::metal::check {
namespace {

// The sums are those of all words: every word was read, and once.
Finding read_streams(Workbench& bench) {
  Random random(1);
  constexpr int kGroups = 3, kPieces = 700;
  std::vector<std::uint32_t> words(std::size_t{layout::kReadStreams} * kGroups * kPieces * 4);
  for (std::uint32_t& word : words) word = random.below(~0u);
  layout::Step params{};
  params.k = kPieces;
  const Slice in = bench.hold(words), at = bench.hold(&params, sizeof params);
  Finding finding;
  for (const bool replayed : {false, true}) {
    const Slice out = bench.hold(std::vector<std::uint32_t>(kGroups * kReadSums));
    finding.device_s = bench.run({read_memory(at, in, out, kGroups)}, 1, replayed);
    const auto sums = bench.read<std::uint32_t>(out, kGroups * kReadSums);
    if (std::accumulate(sums.begin(), sums.end(), 0u) != std::accumulate(words.begin(), words.end(), 0u))
      return {INFINITY, finding.device_s, replayed ? "a replay gives other results" : "not what its definition says"};
  }
  return finding;
}

}  // namespace

std::vector<Case> read_cases() { return {{"read_streams", read_streams}}; }

}  // namespace lapidary::metal::check
