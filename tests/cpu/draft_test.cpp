// What only drafts need: embed_pair, top and cluster_logits.
#include <boost/ut.hpp>

#include <limits>

#include "cpu/kernel_rows.hpp"
#include "cpu/linear_tolerance.hpp"
#include "reference/draft.hpp"
#include "support/random_weights.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using Ids = std::vector<std::int32_t>;
using IdRows = std::vector<Ids>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

// Ids as numbers, which they are exactly, so that rows of them can be compared like others.
FloatRows as_floats(const IdRows& rows) {
  FloatRows all;
  for (const Ids& row : rows) all.emplace_back(row.begin(), row.end());
  return all;
}

std::vector<int> tokens_below(int count) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

FloatRows embed_pair(const std::vector<int>& tokens, const link::Matrix& table, float scale, const FloatRows& hidden,
                     int parts = 1) {
  std::vector<graph::Row> rows;
  for (const int token : tokens) rows.push_back({.slot = 0, .position = 5, .token = token, .block_end = 5});
  const RowBuffer in(hidden);
  RowBuffer out(static_cast<int>(rows.size()), 2 * table.cols);
  in_parts(parts, [&](cpu::Part part) { cpu::embed_pair(rows, table, scale, in.in(), out.out(), part); });
  return out.rows();
}

suite<"embed_pair"> pair_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("embed_pair from " + label(storage) + " is near its definition and the same among any other rows") = [&storage] {
      Random random(1);
      const int vocab = 9;
      for (const int hidden : {1536, 2560, 2816, 3840, 5376, 128, 192}) {
        if (!fits(storage, hidden)) continue;
        const RandomMatrix random_table(random, storage, vocab, hidden);
        const link::Matrix table = random_table.view();
        const float scale = 39.25f;
        const FloatRows carried = random_rows(random, vocab, hidden, -30, 30);
        const FloatRows got = embed_pair(tokens_below(vocab), table, scale, carried);
        for (const int token : {0, vocab / 2, vocab - 1}) {
          // Dequantise and scale: a few roundings of |scale * code| + |bias|. What is carried stays as it is.
          std::vector<double> allowed;
          for (int col = 0; col < hidden; ++col)
            allowed.push_back(3e-7 * reference::weight_at(table, token, col).magnitude() * scale + 0x1p-149);
          allowed.resize(2 * hidden, 0.0);
          expect(worst_error(got[token],
                             reference::embed_pair(reference::dequantise_row(table, token), scale, doubles(carried[token])),
                             allowed) <= 1.0_d)
              << "hidden" << hidden << "token" << token;
        }
        if (hidden == 192 || hidden == 1536)
          expect_rows_independent(random, vocab, [&](const std::vector<int>& numbers, int parts) {
            return embed_pair(numbers, table, scale, gather(carried, numbers), parts);
          });
      }
    };
  }

  "embed_pair carries what is not a number too"_test = [] {
    Random random(2);
    const RandomMatrix random_table(random, {Encoding::plain, DType::bf16, 16, 0}, 3, 5);
    const std::vector<float> carried = {kUntouched, -0.0f, kInfinity, 1e-45f, -kInfinity};
    const auto got = embed_pair({1}, random_table.view(), 2.0f, {carried}).front();
    expect(std::memcmp(got.data() + 5, carried.data(), 5 * sizeof(float)) == 0);
  };
};

IdRows top(const FloatRows& scores, int used, int parts = 1) {
  const int rows = static_cast<int>(scores.size()), count = static_cast<int>(scores.front().size());
  const RowBuffer in(scores);
  IdBuffer ids(rows, used);
  in_parts(parts, [&](cpu::Part part) { cpu::top(rows, in.in(), count, used, ids.out(), part); });
  return ids.rows();
}

void expect_top(const std::vector<float>& scores, int used) {
  expect(top({scores}, used).front() == reference::top(doubles(scores), used)) << used << "of" << scores.size();
}

suite<"top"> top_suite = [] {
  // Centroids of E2B and E4B, of the small models, and others.
  static constexpr std::pair<int, int> kSizes[] = {{2048, 32}, {32, 8}, {128, 8}, {2048, 2048}, {33, 32}, {7, 1}, {1, 1}};

  "top finds the largest in descending order"_test = [] {
    Random random(3);
    for (const auto& [count, used] : kSizes)
      for (const double size : {1e-30, 1.0, 1e30}) expect_top(random.floats(count, -size, size), used);
    std::vector<float> sorted = random.floats(2048, -1, 1);
    std::sort(sorted.begin(), sorted.end());
    expect_top(sorted, 32);
    std::reverse(sorted.begin(), sorted.end());
    expect_top(sorted, 32);
  };

  "top gives ties to the lower id"_test = [] {
    Random random(4);
    for (const auto& [count, used] : kSizes) {
      expect_top(std::vector<float>(count, 0.5f), used);
      expect_top(std::vector<float>(count, -kInfinity), used);
      for (int round = 0; round < 20; ++round) {
        std::vector<float> scores;
        for (int i = 0; i < count; ++i) scores.push_back(random.chance(2) ? -0.0f : static_cast<float>(random.below(5)));
        expect_top(scores, used);
      }
    }
  };

  "what is not a number is picked last, like the lowest"_test = [] {
    Random random(5);
    for (const auto& [count, used] : kSizes) {
      expect_top(std::vector<float>(count, kNaN), used);
      for (int round = 0; round < 20; ++round) {
        std::vector<float> scores = random.floats(count, -3, 3);
        for (float& score : scores)
          if (random.chance(1 + round % 4)) score = std::array{kNaN, -kNaN, -kInfinity, kInfinity, score}[random.below(5)];
        expect_top(scores, used);
      }
    }
  };

  "top gives a row the same ids among any others"_test = [] {
    Random random(6);
    for (const auto& [count, used] : {std::pair{2048, 32}, {32, 8}}) {
      const FloatRows scores = random_rows(random, 17, count);
      expect_rows_independent(random, 17, [&, used = used](const std::vector<int>& numbers, int parts) {
        return as_floats(top(gather(scores, numbers), used, parts));
      });
    }
  };
};

struct Clusters {
  int count, used, tokens, hidden;
  int vocab() const { return count * tokens; }
};

// Random clusters, among them the one of token 0 and the one of the last token.
Ids pick_clusters(Random& random, const Clusters& shape, const Ids& order) {
  const auto cluster_of = [&](std::int32_t token) {
    return static_cast<std::int32_t>(std::find(order.begin(), order.end(), token) - order.begin()) / shape.tokens;
  };
  const auto picked = random.pick(shape.used, shape.count);
  Ids clusters(picked.begin(), picked.end());
  for (const std::int32_t wanted : {cluster_of(0), cluster_of(shape.vocab() - 1)})
    if (std::find(clusters.begin(), clusters.end(), wanted) == clusters.end())
      clusters[clusters[0] == cluster_of(0) ? clusters.size() - 1 : 0] = wanted;
  return clusters;
}

Ids random_order(Random& random, int vocab) {
  const auto picked = random.pick(vocab, vocab);
  return {picked.begin(), picked.end()};
}

struct ListedRows {
  FloatRows logits;
  IdRows tokens;
};

ListedRows cluster_logits(const FloatRows& x, const IdRows& clusters, const Clusters& shape, const link::Matrix& table,
                          const Ids& order, int parts = 1) {
  const int rows = static_cast<int>(x.size()), listed = shape.used * shape.tokens;
  const RowBuffer in(x);
  const IdBuffer picked(clusters);
  RowBuffer logits(rows, listed);
  IdBuffer tokens(rows, listed);
  in_parts(parts, [&](cpu::Part part) {
    cpu::cluster_logits(rows, in.in(), picked.in(), shape.used, shape.tokens, table, order.data(), logits.out(),
                        tokens.out(), part);
  });
  return {logits.rows(), tokens.rows()};
}

void expect_cluster_logits(Random& random, const Clusters& shape, const Storage& storage, const Ids& order) {
  const RandomMatrix random_table(random, storage, shape.vocab(), shape.hidden);
  const link::Matrix table = random_table.view();
  const FloatRows x = random_rows(random, 1, shape.hidden);
  const Ids clusters = pick_clusters(random, shape, order);
  const auto expected = reference::cluster_logits([&](int token) { return reference::dequantise_row(table, token); },
                                                  doubles(x[0]), clusters, shape.tokens, order);
  std::vector<double> allowed;
  for (const std::int32_t token : expected.tokens) {
    double sum = 0.0;
    for (int col = 0; col < shape.hidden; ++col)
      sum += reference::weight_at(table, token, col).magnitude() * std::abs(x[0][col]);
    allowed.push_back(kProductError * sum);
  }
  const RowBuffer in(x);
  RowBuffer out(1, shape.vocab());
  const link::Matrix* const weights[] = {&table};
  cpu::linear(1, in.in(), weights, out.out(), {});
  const std::vector<float> all = out.rows().front();

  for (const int parts : {1, 2, 3}) {
    const ListedRows got = cluster_logits(x, {clusters}, shape, table, order, parts);
    expect(got.tokens.front() == expected.tokens) << "in" << parts << "parts";
    expect(worst_error(got.logits.front(), expected.logits, allowed) <= 1.0_d) << "hidden" << shape.hidden;
    std::vector<float> of_tokens;
    for (const std::int32_t token : expected.tokens) of_tokens.push_back(all[token]);
    expect(same_bits(got.logits.front(), of_tokens)) << "not what linear makes of hidden" << shape.hidden;
  }
}

suite<"cluster_logits"> cluster_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("cluster_logits of " + label(storage) + " is near its definition and equals linear to the bit") = [&storage] {
      Random random(7);
      // E2B and E4B with fewer clusters, the small models, shares that cross clusters, and rows of several blocks.
      for (const Clusters& shape : {Clusters{5, 3, 128, 256}, {32, 8, 8, 64}, {9, 5, 7, 192}, {3, 2, 5, 1536}})
        if (fits(storage, shape.hidden)) expect_cluster_logits(random, shape, storage, random_order(random, shape.vocab()));
    };

    test("cluster_logits of " + label(storage) + " gives a row the same bits among any others") = [&storage] {
      Random random(8);
      const Clusters shape{32, 8, 8, 128};
      const RandomMatrix random_table(random, storage, shape.vocab(), shape.hidden);
      const link::Matrix table = random_table.view();
      const Ids order = random_order(random, shape.vocab());
      const FloatRows x = random_rows(random, 17, shape.hidden);
      IdRows clusters;
      for (int r = 0; r < 17; ++r) clusters.push_back(pick_clusters(random, shape, order));
      expect_rows_independent(random, 17, [&](const std::vector<int>& numbers, int parts) {
        ListedRows listed = cluster_logits(gather(x, numbers), gather(clusters, numbers), shape, table, order, parts);
        for (std::size_t r = 0; r < numbers.size(); ++r)
          listed.logits[r].insert(listed.logits[r].end(), listed.tokens[r].begin(), listed.tokens[r].end());
        return listed.logits;
      });
    };
  }

  "cluster_logits scores 4096 of 262144 tokens, in any order of them"_test = [] {
    Random random(9);
    const Clusters published{2048, 32, 128, 256};
    const Storage storage{Encoding::affine, DType::bf16, 2, 128};  // the smallest table
    expect_cluster_logits(random, published, storage, random_order(random, published.vocab()));
  };

  "cluster_logits takes the order as it is, forwards and backwards, and plain rows of any length"_test = [] {
    Random random(10);
    for (const Storage& storage : plain_storages())
      for (const int hidden : {1, 7, 100, 513, 1025}) {
        const Clusters shape{6, 4, 3, hidden};
        Ids order(shape.vocab());
        std::iota(order.begin(), order.end(), 0);
        expect_cluster_logits(random, shape, storage, order);
        std::reverse(order.begin(), order.end());
        expect_cluster_logits(random, shape, storage, order);
      }
  };
};

}  // namespace
}  // namespace lapidary::test
