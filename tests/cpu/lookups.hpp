// Calls the kernels of tables as the executor does.
#pragma once

#include "cpu/products.hpp"
#include "support/lookup_cases.hpp"

namespace lapidary::test {

inline FloatRows embed(const std::vector<graph::Row>& rows, const FloatRows& soft, const link::Matrix& table, float scale, int parts) {
  const RowBuffer in(soft.empty() ? FloatRows(1) : soft);
  RowBuffer out(count_of(rows), table.cols);
  in_parts(parts, [&](cpu::Part part) { cpu::embed(rows, in.in(), table, scale, out.out(), part); });
  return out.rows();
}

inline FloatRows embed_pair(const std::vector<int>& tokens, const link::Matrix& table, float scale, const FloatRows& hidden,
                            int parts) {
  const RowBuffer in(hidden);
  RowBuffer out(count_of(tokens), 2 * table.cols);
  in_parts(parts, [&](cpu::Part part) { cpu::embed_pair(rows_of_tokens(tokens), table, scale, in.in(), out.out(), part); });
  return out.rows();
}

inline FloatRows ple_inputs(const std::vector<int>& tokens, const FloatRows& projected, const link::Matrix& table,
                            const Ple& ple, int parts) {
  const RowBuffer in(projected);
  RowBuffer out(count_of(tokens), ple.layers * ple.width);
  in_parts(parts, [&](cpu::Part part) {
    cpu::ple_inputs(rows_of_tokens(tokens), in.in(), table, ple.norm.data(), ple.layers, ple.width, ple.projection_scale,
                    ple.table_scale, kEpsilon, out.out(), part);
  });
  return out.rows();
}

inline ListedRows cluster_logits(const FloatRows& x, const IdRows& clusters, const Clusters& shape,
                                 const link::Matrix& table, const Ids& order, int parts) {
  const int rows = count_of(x), listed = shape.used * shape.tokens;
  const RowBuffer in(x);
  const IdBuffer picked(clusters);
  RowBuffer logits(rows, listed);
  IdBuffer tokens(rows, listed);
  in_parts(parts, [&](cpu::Part part) {
    cpu::cluster_logits(best_products(), rows, in.in(), picked.in(), shape.used, shape.tokens, table, order.data(), logits.out(),
                        tokens.out(), part);
  });
  return {logits.rows(), tokens.rows()};
}

inline const LookupKernels kLookups{embed, embed_pair, ple_inputs, cluster_logits, kProducts.linear};

}  // namespace lapidary::test
