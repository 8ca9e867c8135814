// embed_pair, top, cluster_logits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "reference/embed.hpp"
#include "reference/linear.hpp"

namespace lapidary::reference {

// table_row: the token's row of the table, hidden: [hidden] both; returns [2 * hidden]
inline Vector embed_pair(const Vector& table_row, double scale, const Vector& hidden) {
  Vector out = embed(table_row, scale);
  out.insert(out.end(), hidden.begin(), hidden.end());
  return out;
}

// What is not a number counts as -inf.
inline std::vector<std::int32_t> top(Vector scores, int used) {
  for (double& score : scores)
    if (std::isnan(score)) score = -INFINITY;
  std::vector<std::int32_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return scores[a] > scores[b]; });
  ids.resize(used);
  return ids;
}

struct ClusterLogits {
  std::vector<std::int32_t> tokens;  // [used * n]
  Vector logits;                     // [used * n]
};

// row_of(token): its row of the table, dequantised; x: [k], clusters: [used] of n tokens each, order: [all clusters * n]
template <class RowOf>
ClusterLogits cluster_logits(RowOf&& row_of, const Vector& x, const std::vector<std::int32_t>& clusters, int n,
                             const std::vector<std::int32_t>& order) {
  ClusterLogits result;
  for (const std::int32_t cluster : clusters)
    for (int i = 0; i < n; ++i) {
      const std::int32_t token = order[cluster * n + i];
      result.tokens.push_back(token);
      result.logits.push_back(dot(row_of(token), x));
    }
  return result;
}

}  // namespace lapidary::reference
