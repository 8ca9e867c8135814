// What only drafts need: embed_pair, top and cluster_logits.
#include <boost/ut.hpp>

#include "cpu/lookups.hpp"
#include "support/moe_cases.hpp"

namespace lapidary::test::draft_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

IdRows top(const FloatRows& scores, int used, int parts) {
  const RowBuffer in(scores);
  IdBuffer ids(count_of(scores), used);
  in_parts(parts, [&](cpu::Part part) {
    cpu::top(count_of(scores), in.in(), count_of(scores.front()), used, ids.out(), part);
  });
  return ids.rows();
}

suite<"drafts"> draft_suite = [] {
  test_top({.top = top, .most = 2048, .rows = 17});

  for (const Storage& storage : all_storages()) {
    test("embed_pair from " + label(storage) + " is near its definition") = [&storage] {
      Random random(1);
      for (const int hidden : {1536, 2560, 2816, 3840, 5376, 128, 192})
        if (fits(storage, hidden)) expect_embed_pair(random, kLookups, storage, 9, hidden);
    };

    test("cluster_logits of " + label(storage) + " is near its definition and equals linear to the bit") = [&storage] {
      Random random(7);
      // E2B and E4B with fewer clusters, the small models, shares that cross clusters, and rows of several blocks.
      for (const Clusters& shape : {Clusters{5, 3, 128, 256}, {32, 8, 8, 64}, {9, 5, 7, 192}, {3, 2, 5, 1536}})
        if (fits(storage, shape.hidden))
          expect_cluster_logits(random, kLookups, shape, storage, random_ids(random, shape.vocab(), shape.vocab()),
                                {1, 2, 3});
    };

    test("cluster_logits of " + label(storage) + " gives a row the same bits among any others") = [&storage] {
      Random random(8);
      expect_cluster_logits_alone(random, kLookups, storage, all_company(17));
    };
  }

  "cluster_logits scores 4096 of 262144 tokens, in any order of them"_test = [] {
    Random random(9);
    const Clusters published{2048, 32, 128, 256};
    const Storage storage{Encoding::affine, DType::bf16, 2, 128};  // the smallest table
    const Ids order = random_ids(random, published.vocab(), published.vocab());
    expect_cluster_logits(random, kLookups, published, storage, order, {1, 2, 3});
  };

  "cluster_logits takes the order as it is, forwards and backwards, and plain rows of any length"_test = [] {
    Random random(10);
    for (const Storage& storage : plain_storages())
      for (const int hidden : {1, 7, 100, 513, 1025}) {
        const Clusters shape{6, 4, 3, hidden};
        Ids order(shape.vocab());
        std::iota(order.begin(), order.end(), 0);
        expect_cluster_logits(random, kLookups, shape, storage, order, {1, 2, 3});
        std::reverse(order.begin(), order.end());
        expect_cluster_logits(random, kLookups, shape, storage, order, {1, 2, 3});
      }
  };
};

}  // namespace
}  // namespace lapidary::test::draft_test
