// embed, embed_pair, ple_inputs and cluster_logits for every storage of their tables.
#include <boost/ut.hpp>

#include <limits>

#include "metal/products.hpp"
#include "reference/draft.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using Ids = std::vector<std::int32_t>;
using IdRows = std::vector<Ids>;

// Dequantise and scale: a few roundings of |scale * code| + |bias|.
constexpr double kLookupError = 3e-7;

constexpr float kScale = 39.25f;
constexpr int kTokens = 9;

std::vector<graph::Row> rows_of_tokens(const std::vector<int>& tokens) {
  std::vector<graph::Row> rows;
  for (const int token : tokens) rows.push_back({.slot = 0, .position = 5, .token = token, .block_end = 5});
  return rows;
}

std::vector<double> lookup_errors(const link::Matrix& table, int token, double scale) {
  std::vector<double> errors;
  // A subnormal result is rounded to a multiple of 2^-149.
  for (int col = 0; col < table.cols; ++col)
    errors.push_back(kLookupError * reference::weight_at(table, token, col).magnitude() * scale + 0x1p-149);
  return errors;
}

FloatRows embed(const std::vector<int>& tokens, const link::Matrix& table, float scale) {
  Stage stage(graph::Op::embed, {.n = {table.cols}, .scale = scale}, static_cast<int>(tokens.size()));
  stage.row_table(rows_of_tokens(tokens));
  stage.out(0, table.cols);
  stage.matrix(0, table);
  stage.play();
  return stage.floats(0);
}

FloatRows embed_pair(const std::vector<int>& tokens, const link::Matrix& table, float scale, const FloatRows& hidden) {
  Stage stage(graph::Op::embed_pair, {.n = {table.cols}, .scale = scale}, static_cast<int>(tokens.size()));
  stage.row_table(rows_of_tokens(tokens));
  stage.in(0, hidden);
  stage.out(0, 2 * table.cols);
  stage.matrix(0, table);
  stage.play();
  return stage.floats(0);
}

suite<"embed on the device"> embed_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("embed and embed_pair from " + label(storage) + " are near their definitions") = [&storage] {
      Random random(1);
      for (const int hidden : {1536, 2816, 192, 64}) {
        if (!fits(storage, hidden)) continue;
        const RandomMatrix random_table(random, storage, kTokens, hidden);
        const link::Matrix table = random_table.view();
        const std::vector<int> tokens = {0, kTokens / 2, kTokens - 1, 0};
        const FloatRows carried = random_rows(random, 4, hidden, -30, 30);
        const FloatRows alone = embed(tokens, table, kScale), pair = embed_pair(tokens, table, kScale, carried);
        for (int r = 0; r < 4; ++r) {
          auto allowed = lookup_errors(table, tokens[r], kScale);
          const auto row = reference::dequantise_row(table, tokens[r]);
          expect(worst_error(alone[r], reference::embed(row, kScale), allowed) <= 1.0_d) << "hidden" << hidden;
          allowed.resize(2 * hidden, 0.0);  // what is carried stays as it is
          expect(worst_error(pair[r], reference::embed_pair(row, kScale, doubles(carried[r])), allowed) <= 1.0_d)
              << "pair of hidden" << hidden;
        }
      }
    };
  }

  "embed reads every code of the floating-point storages at scales from end to end of their range"_test = [] {
    Random random(2);
    const struct {
      Storage storage;
      std::vector<int> scales;  // as far as the largest element times scale is a float32
    } cases[] = {{{Encoding::mxfp4, DType::u8, 4, 32}, {0, 1, 2, 126, 127, 128, 252}},
                 {{Encoding::nvfp4, DType::u8, 4, 16}, {0x00, 0x01, 0x07, 0x08, 0x38, 0x7e, 0x81, 0xb8, 0xfe}},
                 {{Encoding::mxfp8, DType::u8, 8, 32}, {0, 1, 2, 126, 127, 128, 246}}};
    for (const auto& [storage, scales] : cases) {
      const int cols = 256, tokens = static_cast<int>(scales.size());
      RandomMatrix random_table(random, storage, tokens, cols);
      const link::Matrix table = random_table.view();
      for (int token = 0; token < tokens; ++token) {
        for (std::size_t i = 0; i < table.row_bytes; ++i) {
          const std::size_t pair = (2 * i) % 16 | (2 * i + 1) % 16 << 4, single = (i & 0x7f) == 0x7f ? 0 : i;  // no NaN
          random_table.values()[token * table.row_bytes + i] = static_cast<std::byte>(storage.bits == 4 ? pair : single);
        }
        for (std::size_t i = 0; i < table.scale_row_bytes; ++i)
          random_table.scales()[token * table.scale_row_bytes + i] = static_cast<std::byte>(scales[token]);
        expect(worst_error(embed({token}, table, 1.0f).front(), reference::dequantise_row(table, token),
                           lookup_errors(table, token, 1.0)) <= 1.0_d)
            << label(storage) << "with scale" << scales[token];
      }
    }
  };

  "embed gives a row the same bits among any others, and takes plain tables of any width"_test = [] {
    Random random(3);
    for (const Storage& storage : plain_storages())
      for (const int hidden : {1, 5, 9, 100, 513}) {
        const RandomMatrix random_table(random, storage, kTokens, hidden);
        const link::Matrix table = random_table.view();
        const FloatRows carried = random_rows(random, kTokens, hidden);
        expect_rows_alone(random, kTokens, kRoundWidths,
                          [&](const std::vector<int>& tokens) { return embed(tokens, table, kScale); });
        expect_rows_alone(random, kTokens, kRoundWidths, [&](const std::vector<int>& tokens) {
          return embed_pair(tokens, table, kScale, gather(carried, tokens));
        });
      }
  };

  "embed_pair carries what is not a number too"_test = [] {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    Random random(4);
    const RandomMatrix random_table(random, {Encoding::plain, DType::bf16, 16, 0}, 3, 5);
    const std::vector<float> carried = {kUntouched, -0.0f, kInfinity, 1e-45f, -kInfinity};
    const auto got = embed_pair({1}, random_table.view(), 2.0f, {carried}).front();
    expect(std::memcmp(got.data() + 5, carried.data(), 5 * sizeof(float)) == 0);
  };

  "embed_pair of a draft carries the row of its session slot"_test = [] {
    Random random(6);
    const RandomMatrix random_table(random, {Encoding::affine, DType::bf16, 4, 64}, kTokens, 64);
    const link::Matrix table = random_table.view();
    const FloatRows carried = random_rows(random, 3, 64);  // by session slot
    Stage stage(graph::Op::embed_pair, {.n = {64}, .scale = kScale}, 1);
    stage.row_table(rows_of_tokens({7}));
    stage.in(0, carried);
    stage.out(0, 128);
    stage.matrix(0, table);
    stage.params().rows = metal::layout::kOneRow;
    stage.params().in[0] = {stage.params().in[0].row_bytes, 0, 0};
    stage.run().slot = 2;
    stage.run().row_count = 0;
    stage.play();
    expect(same_bits(stage.floats(0).front(), embed_pair({7}, table, kScale, {carried[2]}).front()));
  };

  "embed of the output window takes the tokens of its rows"_test = [] {
    Random random(5);
    const RandomMatrix random_table(random, {Encoding::affine, DType::bf16, 4, 64}, kTokens, 64);
    const link::Matrix table = random_table.view();
    Stage stage(graph::Op::embed, {.n = {64}, .scale = kScale}, 2);
    stage.row_table(rows_of_tokens({1, 2, 3, 4, 5}));
    stage.out(0, 64);
    stage.matrix(0, table);
    stage.params().rows = metal::layout::kOutputRows;
    stage.run().row_count = 5;
    stage.run().first_output = 3;
    stage.play();
    const FloatRows got = stage.floats(0), expected = embed({4, 5}, table, kScale);
    for (int r = 0; r < 2; ++r) expect(same_bits(got[r], expected[r]));
  };
};

struct Ple {
  int layers, width;
  std::vector<float> norm;
  float projection_scale = 0.025515518f, table_scale = 16.0f;
};

FloatRows ple_inputs(const std::vector<int>& tokens, const FloatRows& projected, const link::Matrix& table,
                     const Ple& ple) {
  Stage stage(graph::Op::ple_inputs,
              {.n = {ple.width, ple.layers}, .scale = ple.projection_scale, .scale2 = ple.table_scale, .epsilon = kEpsilon},
              static_cast<int>(tokens.size()));
  stage.row_table(rows_of_tokens(tokens));
  stage.in(0, projected);
  stage.out(0, ple.layers * ple.width);
  stage.matrix(0, table);
  stage.vector(1, ple.norm);
  stage.play();
  return stage.floats(0);
}

suite<"ple_inputs on the device"> ple_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("ple_inputs from " + label(storage) + " is near its definition and the same among any other rows") = [&storage] {
      Random random(6);
      for (const auto& [layers, width] : {std::pair{35, 256}, std::pair{4, 32}, std::pair{2, 528}}) {
        if (!fits(storage, layers * width)) continue;
        const Ple ple{layers, width, random.floats(width, -2, 2)};
        const RandomMatrix random_table(random, storage, kTokens, layers * width);
        const link::Matrix table = random_table.view();
        FloatRows projected = random_rows(random, kTokens, layers * width, -60, 60);
        for (float& value : projected[0]) value *= 1e-3f;  // so small that the epsilon counts
        for (const int token : {0, kTokens - 1}) {
          const auto expected = reference::ple_inputs(doubles(projected[token]), reference::dequantise_row(table, token),
                                                      doubles(ple.norm), ple.projection_scale, ple.table_scale, kEpsilon);
          std::vector<double> allowed = lookup_errors(table, token, ple.table_scale);
          // And that of the normed part, which is at most |out| sqrt(2) + |table part|.
          for (std::size_t i = 0; i < allowed.size(); ++i)
            allowed[i] += 1e-6 * std::abs(expected[i]) + allowed[i] * (1e-6 / kLookupError);
          expect(worst_error(ple_inputs({token}, {projected[token]}, table, ple).front(), expected, allowed) <= 1.0_d)
              << layers << "layers of" << width << "token" << token;
        }
        expect_rows_alone(random, kTokens, {8, 5, 2}, [&](const std::vector<int>& numbers) {
          return ple_inputs(numbers, gather(projected, numbers), table, ple);
        });
      }
    };
  }
};

struct Clusters {
  int count, used, tokens, hidden;
  int vocab() const { return count * tokens; }
};

Ids random_ids(Random& random, int count, int limit) {
  const auto picked = random.pick(count, limit);
  return {picked.begin(), picked.end()};
}

struct ListedRows {
  FloatRows logits;
  IdRows tokens;
};

ListedRows cluster_logits(const FloatRows& x, const IdRows& clusters, const Clusters& shape, const link::Matrix& table,
                          const Ids& order) {
  Stage stage(graph::Op::cluster_logits,
              {.k = shape.hidden, .n = {shape.tokens}, .experts = shape.count, .experts_used = shape.used}, count_of(x));
  stage.in(0, x);
  stage.in_ids(1, clusters);
  stage.out(0, shape.used * shape.tokens);
  stage.out(1, shape.used * shape.tokens);
  stage.matrix(0, table);
  stage.vector(1, order);
  stage.play();
  return {stage.floats(0), stage.ids(1)};
}

void expect_cluster_logits(Random& random, const Clusters& shape, const Storage& storage, const Ids& order) {
  const RandomMatrix random_table(random, storage, shape.vocab(), shape.hidden);
  const link::Matrix table = random_table.view();
  const FloatRows x = random_rows(random, 1, shape.hidden);
  Ids clusters = random_ids(random, shape.used, shape.count - 1);
  clusters.back() = shape.count - 1;
  const auto row_of = [&](int token) { return reference::dequantise_row(table, token); };
  const auto expected = reference::cluster_logits(row_of, doubles(x[0]), clusters, shape.tokens, order);
  std::vector<double> allowed;
  for (const std::int32_t token : expected.tokens) {
    double sum = 0.0;
    for (int col = 0; col < shape.hidden; ++col)
      sum += reference::weight_at(table, token, col).magnitude() * std::abs(x[0][col]);
    allowed.push_back(kProductError * sum);
  }
  const std::vector<float> all = linear(x, {table}, NumericClass::round).front();
  const ListedRows got = cluster_logits(x, {clusters}, shape, table, order);
  expect(got.tokens.front() == expected.tokens);
  expect(worst_error(got.logits.front(), expected.logits, allowed) <= 1.0_d) << "hidden" << shape.hidden;
  std::vector<float> of_tokens;
  for (const std::int32_t token : expected.tokens) of_tokens.push_back(all[token]);
  expect(same_bits(got.logits.front(), of_tokens)) << "not what linear makes of hidden" << shape.hidden;
}

suite<"cluster_logits on the device"> cluster_suite = [] {
  for (const Storage& storage : all_storages())
    test("cluster_logits of " + label(storage) + " is near its definition and equals linear to the bit") = [&storage] {
      Random random(7);
      // E2B and E4B with fewer clusters, the small models, clusters that are no multiple of a tile, and long rows.
      for (const Clusters& shape : {Clusters{5, 2, 128, 256}, {32, 8, 8, 64}, {9, 5, 7, 192}, {3, 2, 5, 1536}})
        if (fits(storage, shape.hidden))
          expect_cluster_logits(random, shape, storage, random_ids(random, shape.vocab(), shape.vocab()));
    };

  "cluster_logits gives a row the same bits among any others"_test = [] {
    Random random(8);
    const Clusters shape{32, 8, 8, 128};
    const RandomMatrix random_table(random, {Encoding::affine, DType::bf16, 4, 64}, shape.vocab(), shape.hidden);
    const link::Matrix table = random_table.view();
    const Ids order = random_ids(random, shape.vocab(), shape.vocab());
    const FloatRows x = random_rows(random, 12, shape.hidden);
    IdRows clusters;
    for (int r = 0; r < 12; ++r) clusters.push_back(random_ids(random, shape.used, shape.count));
    expect_rows_alone(random, 12, kRoundWidths, [&](const std::vector<int>& numbers) {
      ListedRows listed = cluster_logits(gather(x, numbers), gather(clusters, numbers), shape, table, order);
      for (std::size_t r = 0; r < numbers.size(); ++r)
        listed.logits[r].insert(listed.logits[r].end(), listed.tokens[r].begin(), listed.tokens[r].end());
      return listed.logits;
    });
  };

  "cluster_logits scores 4096 of 262144 tokens, in any order of them"_test = [] {
    Random random(9);
    const Clusters published{2048, 32, 128, 128};
    const Storage storage{Encoding::affine, DType::bf16, 2, 128};  // the smallest table
    const RandomMatrix random_table(random, storage, published.vocab(), published.hidden);
    const link::Matrix table = random_table.view();
    const FloatRows x = random_rows(random, 1, published.hidden);
    const Ids order = random_ids(random, published.vocab(), published.vocab()), clusters = random_ids(random, 32, 2048);
    const ListedRows got = cluster_logits(x, {clusters}, published, table, order);
    const auto row_of = [&](int token) { return reference::dequantise_row(table, token); };
    const auto expected = reference::cluster_logits(row_of, doubles(x[0]), clusters, published.tokens, order);
    expect(got.tokens.front() == expected.tokens);
    // Weights are below 2 and there are 128 inputs below 2.
    expect(worst_error(got.logits.front(), expected.logits, std::vector<double>(4096, kProductError * 512)) <= 1.0_d);
  };
};

}  // namespace
}  // namespace lapidary::test
