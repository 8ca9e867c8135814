// embed, embed_pair, ple_inputs and cluster_logits on the device, for every storage of their tables.
#include <boost/ut.hpp>

#include "metal/products.hpp"
#include "support/lookup_cases.hpp"

namespace lapidary::test::lookup_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

constexpr int kTokens = 9;

// Soft tokens are where they belong before.
FloatRows embed(const std::vector<graph::Row>& rows, const FloatRows& soft, const link::Matrix& table, float scale, int) {
  Stage stage(graph::Op::embed, {.n = {table.cols}, .scale = scale}, count_of(rows));
  stage.row_table(rows);
  FloatRows begin(rows.size(), std::vector<float>(static_cast<std::size_t>(table.cols), kUntouched));
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (rows[r].soft >= 0) begin[r] = soft[static_cast<std::size_t>(rows[r].soft)];
  stage.out(0, begin);
  stage.matrix(0, table);
  stage.play();
  return stage.floats(0);
}

FloatRows embed_pair(const std::vector<int>& tokens, const link::Matrix& table, float scale, const FloatRows& hidden, int) {
  Stage stage(graph::Op::embed_pair, {.n = {table.cols}, .scale = scale}, count_of(tokens));
  stage.row_table(rows_of_tokens(tokens));
  stage.in(0, hidden);
  stage.out(0, 2 * table.cols);
  stage.matrix(0, table);
  stage.play();
  return stage.floats(0);
}

FloatRows ple_inputs(const std::vector<int>& tokens, const FloatRows& projected, const link::Matrix& table, const Ple& ple,
                     int) {
  Stage stage(graph::Op::ple_inputs,
              {.n = {ple.width, ple.layers}, .scale = ple.projection_scale, .scale2 = ple.table_scale, .epsilon = kEpsilon},
              count_of(tokens));
  stage.row_table(rows_of_tokens(tokens));
  stage.in(0, projected);
  stage.out(0, ple.layers * ple.width);
  stage.matrix(0, table);
  stage.vector(1, ple.norm);
  stage.play();
  return stage.floats(0);
}

ListedRows cluster_logits(const FloatRows& x, const IdRows& clusters, const Clusters& shape, const link::Matrix& table,
                          const Ids& order, int) {
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

const LookupKernels kLookups{embed, embed_pair, ple_inputs, cluster_logits, products_of(NumericClass::round).linear};

suite<"embed on the device"> embed_suite = [] {
  for (const Storage& storage : all_storages())
    test("embed and embed_pair from " + label(storage) + " are near their definitions") = [&storage] {
      Random random(1);
      for (const int hidden : {1536, 2816, 192, 64}) {
        if (!fits(storage, hidden)) continue;
        expect_embed(random, kLookups, storage, kTokens, hidden);
        expect_embed_pair(random, kLookups, storage, kTokens, hidden);
      }
    };

  test_embed_codes(kLookups);

  "embed gives a row the same bits among any others, and takes plain tables of any width"_test = [] {
    Random random(3);
    for (const Storage& storage : plain_storages())
      for (const int hidden : {1, 5, 9, 100, 513})
        expect_embeds_alone(random, kLookups, storage, hidden, {kTokens, kRoundWidths});
  };

  "embed_pair of a draft carries the row of its session slot"_test = [] {
    Random random(6);
    const RandomMatrix random_table(random, kAffine4, kTokens, 64);
    const link::Matrix table = random_table.view();
    const FloatRows carried = random_rows(random, 3, 64);  // by session slot
    Stage stage(graph::Op::embed_pair, {.n = {64}, .scale = kEmbedScale}, 1);
    stage.row_table(rows_of_tokens({7}));
    stage.in(0, carried);
    stage.out(0, 128);
    stage.matrix(0, table);
    stage.params().rows = metal::layout::kOneRow;
    stage.params().in[0] = {stage.params().in[0].row_bytes, 0, 0};
    stage.run().slot = 2;
    stage.run().row_count = 0;
    stage.play();
    expect(same_bits(stage.floats(0).front(), embed_pair({7}, table, kEmbedScale, {carried[2]}, 1).front()));
  };

  "embed of the output window takes the tokens of its rows"_test = [] {
    Random random(5);
    const RandomMatrix random_table(random, kAffine4, kTokens, 64);
    const link::Matrix table = random_table.view();
    Stage stage(graph::Op::embed, {.n = {64}, .scale = kEmbedScale}, 2);
    stage.row_table(rows_of_tokens({1, 2, 3, 4, 5}));
    stage.out(0, 64);
    stage.matrix(0, table);
    stage.params().rows = metal::layout::kOutputRows;
    stage.run().row_count = 5;
    stage.run().first_output = 3;
    stage.play();
    const FloatRows got = stage.floats(0), expected = embed(rows_of_tokens({4, 5}), {}, table, kEmbedScale, 1);
    for (int r = 0; r < 2; ++r) expect(same_bits(got[r], expected[r]));
  };
};

suite<"ple_inputs on the device"> ple_suite = [] {
  for (const Storage& storage : all_storages())
    test("ple_inputs from " + label(storage) + " is near its definition and the same among any other rows") = [&storage] {
      Random random(6);
      for (const auto& [layers, width] : {std::pair{35, 256}, std::pair{4, 32}, std::pair{2, 528}})
        if (fits(storage, layers * width))
          expect_ple_inputs(random, kLookups, storage, layers, width, {kTokens, {8, 5, 2}});
    };
};

suite<"cluster_logits on the device"> cluster_suite = [] {
  for (const Storage& storage : all_storages())
    test("cluster_logits of " + label(storage) + " is near its definition and equals linear to the bit") = [&storage] {
      Random random(7);
      // E2B and E4B with fewer clusters, the small models, clusters that are no multiple of a tile, and long rows.
      for (const Clusters& shape : {Clusters{5, 2, 128, 256}, {32, 8, 8, 64}, {9, 5, 7, 192}, {3, 2, 5, 1536}})
        if (fits(storage, shape.hidden))
          expect_cluster_logits(random, kLookups, shape, storage, random_ids(random, shape.vocab(), shape.vocab()), {1});
    };

  "cluster_logits gives a row the same bits among any others"_test = [] {
    Random random(8);
    expect_cluster_logits_alone(random, kLookups, kAffine4, {12, kRoundWidths});
  };

  "cluster_logits scores 4096 of 262144 tokens, in any order of them"_test = [] {
    Random random(9);
    const Clusters published{2048, 32, 128, 128};
    const Storage storage{Encoding::affine, DType::bf16, 2, 128};  // the smallest table
    const Ids order = random_ids(random, published.vocab(), published.vocab());
    expect_cluster_logits(random, kLookups, published, storage, order, {1}, false);
  };
};

}  // namespace
}  // namespace lapidary::test::lookup_test
