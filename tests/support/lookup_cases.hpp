// embed, embed_pair, ple_inputs and cluster_logits of a backend: checks of one table. Which storages and sizes they are
// made for is each backend's own.
#pragma once

#include "reference/draft.hpp"
#include "support/linear_tolerance.hpp"
#include "support/random_weights.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

struct Ple {
  int layers, width;
  std::vector<float> norm;
  float projection_scale = 0.025515518f, table_scale = 16.0f;
};

struct Clusters {
  int count, used, tokens, hidden;
  int vocab() const { return count * tokens; }
};

struct ListedRows {
  FloatRows logits;
  IdRows tokens;
};

struct LookupKernels {
  using Matrix = link::Matrix;
  // soft: the soft tokens that rows may be
  std::function<FloatRows(const std::vector<graph::Row>& rows, const FloatRows& soft, const Matrix& table, float scale, int parts)>
      embed;
  std::function<FloatRows(const std::vector<int>& tokens, const Matrix& table, float scale, const FloatRows& hidden,
                          int parts)> embed_pair;
  std::function<FloatRows(const std::vector<int>& tokens, const FloatRows& projected, const Matrix& table, const Ple& ple,
                          int parts)> ple_inputs;
  std::function<ListedRows(const FloatRows& x, const IdRows& clusters, const Clusters& shape, const Matrix& table,
                           const Ids& order, int parts)> cluster_logits;
  std::function<FloatRows(const FloatRows& x, const std::vector<Matrix>& weights, int parts)> linear;
};

// Dequantise and scale: a few roundings of |scale * code| + |bias|.
inline constexpr double kLookupError = 3e-7;

inline constexpr float kEmbedScale = 39.25f;

inline std::vector<graph::Row> rows_of_tokens(const std::vector<int>& tokens) {
  std::vector<graph::Row> rows;
  for (const int token : tokens) rows.push_back({.slot = 0, .position = 5, .token = token, .block_end = 5});
  return rows;
}

inline std::vector<double> lookup_errors(const link::Matrix& table, int token, double scale) {
  std::vector<double> errors;
  // A subnormal result is rounded to a multiple of 2^-149.
  for (int col = 0; col < table.cols; ++col)
    errors.push_back(kLookupError * reference::weight_at(table, token, col).magnitude() * scale + 0x1p-149);
  return errors;
}

// Of the first token, one between and the last, and the first again.
inline void expect_embed(Random& random, const LookupKernels& kernels, const Storage& storage, int tokens, int hidden) {
  const RandomMatrix random_table(random, storage, tokens, hidden);
  const link::Matrix table = random_table.view();
  const std::vector<int> some = {0, tokens / 2, tokens - 1, 0};
  const FloatRows got = kernels.embed(rows_of_tokens(some), {}, table, kEmbedScale, 1);
  for (int r = 0; r < 4; ++r)
    boost::ut::expect(worst_error(got[r], reference::embed(reference::dequantise_row(table, some[r]), kEmbedScale),
                                  lookup_errors(table, some[r], kEmbedScale)) <= 1.0)
        << "hidden" << hidden << "token" << some[r];
}

inline void expect_embed_pair(Random& random, const LookupKernels& kernels, const Storage& storage, int tokens,
                              int hidden) {
  const RandomMatrix random_table(random, storage, tokens, hidden);
  const link::Matrix table = random_table.view();
  const std::vector<int> some = {0, tokens / 2, tokens - 1, 0};
  const FloatRows carried = random_rows(random, 4, hidden, -30, 30);
  const FloatRows got = kernels.embed_pair(some, table, kEmbedScale, carried, 1);
  for (int r = 0; r < 4; ++r) {
    auto allowed = lookup_errors(table, some[r], kEmbedScale);
    allowed.resize(2 * hidden, 0.0);  // what is carried stays as it is
    const auto row = reference::dequantise_row(table, some[r]);
    const auto expected = reference::embed_pair(row, kEmbedScale, doubles(carried[r]));
    boost::ut::expect(worst_error(got[r], expected, allowed) <= 1.0) << "hidden" << hidden << "token" << some[r];
  }
}

// As many tokens as the company has rows.
inline void expect_embeds_alone(Random& random, const LookupKernels& kernels, const Storage& storage, int hidden,
                                const Company& company) {
  const RandomMatrix random_table(random, storage, company.rows, hidden);
  const link::Matrix table = random_table.view();
  const FloatRows carried = random_rows(random, company.rows, hidden);
  expect_rows_alone(random, company, [&](const std::vector<int>& tokens, int parts) {
    return kernels.embed(rows_of_tokens(tokens), {}, table, kEmbedScale, parts);
  });
  expect_rows_alone(random, company, [&](const std::vector<int>& tokens, int parts) {
    return kernels.embed_pair(tokens, table, kEmbedScale, gather(carried, tokens), parts);
  });
}

inline void test_embed_codes(const LookupKernels& kernels) {
  using namespace boost::ut;

  "embed reads every code of the floating-point storages at scales from end to end of their range"_test = [&] {
    Random random(2);
    const struct {
      Storage storage;
      std::vector<int> scales;  // as far as the largest element times scale is a float32
    } cases[] = {{{Encoding::mxfp4, DType::u8, 4, 32}, {0, 1, 2, 126, 127, 128, 252}},
                 {{Encoding::nvfp4, DType::u8, 4, 16}, {0x00, 0x01, 0x07, 0x08, 0x38, 0x7e, 0x81, 0xb8, 0xfe}},
                 {{Encoding::mxfp8, DType::u8, 8, 32}, {0, 1, 2, 126, 127, 128, 246}}};
    for (const auto& [storage, scales] : cases) {
      const int cols = 256, tokens = count_of(scales);
      RandomMatrix random_table(random, storage, tokens, cols);
      const link::Matrix table = random_table.view();
      for (int token = 0; token < tokens; ++token) {
        for (std::size_t i = 0; i < table.row_bytes; ++i) {
          const std::size_t pair = (2 * i) % 16 | (2 * i + 1) % 16 << 4, single = (i & 0x7f) == 0x7f ? 0 : i;  // no NaN
          random_table.values()[token * table.row_bytes + i] = static_cast<std::byte>(storage.bits == 4 ? pair : single);
        }
        for (std::size_t i = 0; i < table.scale_row_bytes; ++i)
          random_table.scales()[token * table.scale_row_bytes + i] = static_cast<std::byte>(scales[token]);
        expect(worst_error(kernels.embed(rows_of_tokens({token}), {}, table, 1.0f, 1).front(), reference::dequantise_row(table, token),
                           lookup_errors(table, token, 1.0)) <= 1.0_d)
            << label(storage) << "with scale" << scales[token];
      }
    }
  };

  "a soft token is the row that it names, to the bit, and tokens beside it are what they are without it"_test = [&] {
    Random random(5);
    const RandomMatrix random_table(random, {Encoding::affine, DType::bf16, 4, 64}, 9, 192);
    const link::Matrix table = random_table.view();
    const FloatRows soft = random_rows(random, 3, 192, -40, 40);
    std::vector<graph::Row> rows = rows_of_tokens({4, 0, 7, 0, 0, 2});
    rows[1].soft = 2;
    rows[3].soft = 0;
    rows[4].soft = 1;
    const FloatRows without = kernels.embed(rows_of_tokens({4, 0, 7, 0, 0, 2}), {}, table, kEmbedScale, 1);
    for (const int parts : {1, 3}) {
      const FloatRows got = kernels.embed(rows, soft, table, kEmbedScale, parts);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        if (rows[r].soft < 0) {
          expect(same_bits(got[r], without[r])) << "row" << r;
          continue;
        }
        const std::vector<double> of_soft = doubles(soft[static_cast<std::size_t>(rows[r].soft)]);
        const auto expected = reference::embed(reference::dequantise_row(table, rows[r].token), kEmbedScale, &of_soft);
        expect(worst_error(got[r], expected, std::vector<double>(192, 0.0)) <= 1.0_d) << "row" << r;
      }
    }
  };

  "embed_pair carries what is not a number too"_test = [&] {
    Random random(4);
    const RandomMatrix random_table(random, {Encoding::plain, DType::bf16, 16, 0}, 3, 5);
    const std::vector<float> carried = {kUntouched, -0.0f, kInfinity, 1e-45f, -kInfinity};
    const auto got = kernels.embed_pair({1}, random_table.view(), 2.0f, {carried}, 1).front();
    expect(std::memcmp(got.data() + 5, carried.data(), 5 * sizeof(float)) == 0);
  };
}

// Near its definition, and the same among any others.
inline void expect_ple_inputs(Random& random, const LookupKernels& kernels, const Storage& storage, int layers, int width,
                              const Company& company) {
  const Ple ple{layers, width, random.floats(width, -2, 2)};
  const RandomMatrix random_table(random, storage, company.rows, layers * width);
  const link::Matrix table = random_table.view();
  FloatRows projected = random_rows(random, company.rows, layers * width, -60, 60);
  for (float& value : projected[0]) value *= 1e-3f;  // so small that the epsilon counts
  for (const int token : {0, company.rows - 1}) {
    const auto expected = reference::ple_inputs(doubles(projected[token]), reference::dequantise_row(table, token),
                                                doubles(ple.norm), ple.projection_scale, ple.table_scale, kEpsilon);
    std::vector<double> allowed = lookup_errors(table, token, ple.table_scale);
    // And that of the normed part, which is at most |out| sqrt(2) + |table part|.
    for (std::size_t i = 0; i < allowed.size(); ++i)
      allowed[i] += 1e-6 * std::abs(expected[i]) + allowed[i] * (1e-6 / kLookupError);
    boost::ut::expect(
        worst_error(kernels.ple_inputs({token}, {projected[token]}, table, ple, 1).front(), expected, allowed) <= 1.0)
        << layers << "layers of" << width << "token" << token;
  }
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    return kernels.ple_inputs(numbers, gather(projected, numbers), table, ple, parts);
  });
}

// Random clusters, among them the one of token 0 and the one of the last token.
inline Ids pick_clusters(Random& random, const Clusters& shape, const Ids& order) {
  const auto cluster_of = [&](std::int32_t token) {
    return static_cast<std::int32_t>(std::find(order.begin(), order.end(), token) - order.begin()) / shape.tokens;
  };
  Ids clusters = random_ids(random, shape.used, shape.count);
  for (const std::int32_t wanted : {cluster_of(0), cluster_of(shape.vocab() - 1)})
    if (std::find(clusters.begin(), clusters.end(), wanted) == clusters.end())
      clusters[clusters[0] == cluster_of(0) ? clusters.size() - 1 : 0] = wanted;
  return clusters;
}

// as_linear: also to the bit what `linear` makes of the whole table
inline void expect_cluster_logits(Random& random, const LookupKernels& kernels, const Clusters& shape,
                                  const Storage& storage, const Ids& order, const std::vector<int>& all_parts,
                                  bool as_linear = true) {
  using boost::ut::expect;
  const RandomMatrix random_table(random, storage, shape.vocab(), shape.hidden);
  const link::Matrix table = random_table.view();
  const FloatRows x = random_rows(random, 1, shape.hidden);
  const Ids clusters = pick_clusters(random, shape, order);
  const auto row_of = [&](int token) { return reference::dequantise_row(table, token); };
  const auto expected = reference::cluster_logits(row_of, doubles(x[0]), clusters, shape.tokens, order);
  std::vector<double> allowed;
  for (const std::int32_t token : expected.tokens) {
    double sum = 0.0;
    for (int col = 0; col < shape.hidden; ++col)
      sum += reference::weight_at(table, token, col).magnitude() * std::abs(x[0][col]);
    allowed.push_back(kProductError * sum);
  }
  std::vector<float> of_tokens;
  if (as_linear) {
    const std::vector<float> all = kernels.linear(x, {table}, 1).front();
    for (const std::int32_t token : expected.tokens) of_tokens.push_back(all[token]);
  }
  for (const int parts : all_parts) {
    const ListedRows got = kernels.cluster_logits(x, {clusters}, shape, table, order, parts);
    expect(got.tokens.front() == expected.tokens) << "in" << parts << "parts";
    expect(worst_error(got.logits.front(), expected.logits, allowed) <= 1.0) << "hidden" << shape.hidden;
    expect(!as_linear || same_bits(got.logits.front(), of_tokens)) << "not what linear makes of hidden" << shape.hidden;
  }
}

inline void expect_cluster_logits_alone(Random& random, const LookupKernels& kernels, const Storage& storage,
                                        const Company& company) {
  const Clusters shape{32, 8, 8, 128};
  const RandomMatrix random_table(random, storage, shape.vocab(), shape.hidden);
  const link::Matrix table = random_table.view();
  const Ids order = random_ids(random, shape.vocab(), shape.vocab());
  const FloatRows x = random_rows(random, company.rows, shape.hidden);
  IdRows clusters;
  for (int r = 0; r < company.rows; ++r) clusters.push_back(pick_clusters(random, shape, order));
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    ListedRows listed = kernels.cluster_logits(gather(x, numbers), gather(clusters, numbers), shape, table, order, parts);
    append_rows(listed.logits, listed.tokens);
    return listed.logits;
  });
}

}  // namespace lapidary::test
