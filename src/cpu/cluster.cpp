// The head of an assistant that scores only the tokens of a few clusters.
#include <algorithm>

#include "cpu/dot.hpp"
#include "cpu/kernels.hpp"
#include "cpu/share.hpp"
#include "numeric/dequant.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kBlock = 512;  // inputs dequantised at once
constexpr int kTogether = 8;  // tokens

// logits: [count] = the products of the tokens' rows with x, summed as in every other product
void multiply_tokens(const float* x, const link::Matrix& table, const std::int32_t* tokens, int count, float* logits) {
  alignas(64) float panel[kTogether * kBlock];
  alignas(64) float sums[kTogether * kLanes] = {};
  for (int k = 0; k < table.cols; k += kBlock) {
    const int length = std::min(kBlock, table.cols - k);
    for (int j = 0; j < count; ++j) numeric::dequantise(table.row(0, tokens[j]), k, length, panel + j * kBlock);
    const float* at[] = {x + k};
    for (int j = 0; j < count; ++j) dot_tile<1, 1>(at, panel + j * kBlock, kBlock, length, sums + j * kLanes, 0);
  }
  for (int j = 0; j < count; ++j) logits[j] = sum_lanes(sums + j * kLanes);
}

}  // namespace

void top(int rows, In scores, int count, int used, OutIds ids, Part part) {
  for_each_own(rows, part, [&](int r) {
    const auto score = [z = scores[r]](std::int32_t i) { return numeric::or_lowest(z[i]); };
    // The best so far, in order: most lose against the last of them.
    std::int32_t* best = ids[r];
    int found = 0;
    for (std::int32_t i = 0; i < count; ++i) {
      if (found == used && !(score(i) > score(best[used - 1]))) continue;
      int place = found == used ? used - 1 : found++;
      for (; place > 0 && score(i) > score(best[place - 1]); --place) best[place] = best[place - 1];
      best[place] = i;
    }
  });
}

void cluster_logits(int rows, In x, InIds clusters, int used, int cluster_tokens, const link::Matrix& table,
                    const std::int32_t* order, Out logits, OutIds tokens, Part part) {
  const int count = used * cluster_tokens;
  for_each_share(count, part, kTogether, [&](Range range) {
    for (int r = 0; r < rows; ++r) {
      for (int first = range.begin; first < range.end; first += kTogether) {
        const int end = std::min(range.end, first + kTogether);
        for (int i = first; i < end; ++i)
          tokens[r][i] = order[static_cast<std::size_t>(clusters[r][i / cluster_tokens]) * cluster_tokens + i % cluster_tokens];
        multiply_tokens(x[r], table, tokens[r] + first, end - first, logits[r] + first);
      }
    }
  });
}

}  // namespace lapidary::cpu
