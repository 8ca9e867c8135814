// The head of an assistant that scores only the tokens of a few clusters.
#include <algorithm>

#include "cpu/kernels.hpp"
#include "cpu/product.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

constexpr int kTogether = 8;  // tokens that a thread takes at once

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

void cluster_logits(const FloatProducts& products, int rows, In x, InIds clusters, int used, int cluster_tokens, const link::Matrix& table,
                    const std::int32_t* order, Out logits, OutIds tokens, Part part) {
  const int count = used * cluster_tokens;
  for_each_share(count, part, kTogether, [&](Range range) {
    for (int r = 0; r < rows; ++r)
      for (int i = range.begin; i < range.end; ++i) {
        const std::int32_t token = order[static_cast<std::size_t>(clusters[r][i / cluster_tokens]) * cluster_tokens + i % cluster_tokens];
        tokens[r][i] = token;
        logits[r][i] = products.multiply_row(x[r], table, token);
      }
  });
}

}  // namespace lapidary::cpu
