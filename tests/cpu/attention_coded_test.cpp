// Attention on codes, in every way this processor can and in both modes: near its definition, the same bits for a row in any company, blind
// to what it may not see.
#include <cstring>
#include <memory>
#include <utility>

#include "cpu/coded_cache.hpp"

namespace lapidary::test::attention_coded_test {
namespace {

using namespace boost::ut;
using Shape = CodedShape;
using Cache = CodedCache;

// One row, by all threads together. Their room holds rubbish.
FloatRows attend_together(const Way& way, int position, const FloatRows& q, const Cache& cache, int parts) {
  const std::vector<graph::Row> rows = {{0, position, 0, position}};
  const RowBuffer in(q);
  const cpu::HeadShape& heads = cache.shape.heads;
  RowBuffer out(1, heads.heads * heads.head_dim);
  const auto room = std::make_unique<cpu::AttentionRoom>();
  std::memset(room.get(), 0xff, sizeof *room);
  const cpu::Range all{0, cpu::pairs_of_heads(rows, heads)};
  cpu::for_each_job(rows, in.in(), heads, cache.shape.window, out.out(), all, [&](const cpu::AttentionJob& job) {
    std::vector<cpu::AttentionState> states(parts);
    in_parts(parts, [&](cpu::Part part) { way.together.begin(job, cache.view, states[part.index], *room, part); });
    cpu::for_each_chunk(job, [&](cpu::Range chunk) {
      for (const auto share : {way.together.score, way.together.weigh, way.together.mix})
        in_parts(parts, [&](cpu::Part part) { share(job, cache.view, chunk, states[part.index], *room, part); });
    });
    in_parts(parts, [&](cpu::Part part) { way.together.finish(job, cache.view, states[part.index], *room, part); });
  });
  return out.rows();
}

std::string title(const Way& way, const Shape& shape) {
  return std::string(way.name) + " attention on " + (shape.values == KvCode::q4 ? "q4" : "q8") + (shape.pairs ? ", one store, " : ", ") +
         std::to_string(shape.heads.heads) + "/" + std::to_string(shape.heads.kv_heads) + " heads of " + std::to_string(shape.heads.head_dim);
}

void test_near(const Way& way, const Shape& shape) {
  boost::ut::test(title(way, shape) + " is near its definition") = [way, shape] {
    Random random(1);
    const int d = shape.heads.head_dim, each = shape.heads.heads / shape.heads.kv_heads;
    Cache cache(shape, 131);
    cache.fill(random, 131);
    reference::Table keys, values;
    const FloatRows q = random_rows(random, 1, shape.heads.heads * d);
    for (int t = 0; t < 131; ++t) {
      auto [key, value] = cache.at(0, t);
      keys.push_back(std::move(key));
      values.push_back(std::move(value));
    }
    for (const int last : {0, 1, 62, 63, 64, 65, 127, 128, 129, 130}) {
      const FloatRows got = attend(way, {last}, q, cache);
      for (int head = 0; head < each; ++head) {
        const reference::Vector query(q[0].begin() + head * d, q[0].begin() + (head + 1) * d);
        const auto exact = reference::attention_head(query, keys, values, last, last, shape.window);
        const std::vector<float> expected(exact.begin(), exact.end()), ours(got[0].begin() + head * d, got[0].begin() + (head + 1) * d);
        const double off = difference(ours, expected);
        expect(off < (is_exact(way) ? 1e-5 : 1e-2)) << "position" << last << "head" << head << off;
      }
    }
  };
}

void test_independent(const Way& way, const Shape& shape) {
  boost::ut::test(title(way, shape) + " gives a row the same bits among any others") = [way, shape] {
    Random random(2);
    const int row_count = 12, last = 150;
    Cache cache(shape, last + 1);
    cache.fill(random, last + 1);
    const FloatRows q = random_rows(random, row_count, shape.heads.heads * shape.heads.head_dim);
    std::vector<int> positions = {62, 63, 64, 65, 127, 128, 129};
    while (static_cast<int>(positions.size()) < row_count) positions.push_back(random.below(last));
    expect_rows_independent(random, row_count, [&](const std::vector<int>& numbers, int parts) {
      return attend(way, gather(positions, numbers), gather(q, numbers), cache, parts);
    });
  };

  boost::ut::test(title(way, shape) + " does not look at what is invisible") = [way, shape] {
    Random random(5);
    Cache cache(shape, 192);
    cache.fill(random, 192);
    const FloatRows q = random_rows(random, 1, shape.heads.heads * shape.heads.head_dim);
    for (const int last : {3, 63, 64, 100}) {
      const auto before = attend(way, {last}, q, cache);
      for (const float scale : {kNaN, kInfinity, -1e38f}) {
        cache.spoil(last + 1, 192, scale);
        expect(same_bits(attend(way, {last}, q, cache)[0], before[0])) << last << scale;
      }
      Random again(5);
      cache.fill(again, 192);
    }
  };
}

void test_together(const Way& way, const Shape& shape) {
  boost::ut::test(title(way, shape) + " has the same bits by all threads together") = [way, shape] {
    Random random(3);
    constexpr int kLong = 2300;
    Cache cache(shape, kLong);
    cache.fill(random, kLong);
    for (const int last : {0, 63, 64, 300, 2047, 2048, kLong - 1}) {
      const FloatRows q = random_rows(random, 1, shape.heads.heads * shape.heads.head_dim);
      const FloatRows alone = attend(way, {last}, q, cache);
      for (const int parts : {1, 2, 3, 7})
        expect(same_bits(attend_together(way, last, q, cache, parts)[0], alone[0])) << "position" << last << "parts" << parts;
    }
  };
}

void test_no_number(const Way& way) {
  boost::ut::test(std::string(way.name) + " attention on codes hides nothing that is not a number") = [way] {
    for (const int pairs : {0, 8}) {
      Random random(6);
      const Shape shape{{2, 1, 64}, pairs, KvCode::q8};
      Cache cache(shape, 71);
      cache.fill(random, 71);
      FloatRows q = random_rows(random, 1, 2 * 64);
      const std::vector<float> good = attend(way, {70}, q, cache)[0];
      q[0][9] = kInfinity;  // of the first head
      const std::vector<float> bad = attend(way, {70}, q, cache)[0];
      expect(std::all_of(bad.begin(), bad.begin() + 64, [](float x) { return std::isnan(x); }));
      expect(std::equal(bad.begin() + 64, bad.end(), good.begin() + 64));
      // A key, or a value: all that see it.
      q[0][9] = 0.5f;
      for (const bool is_key : {true, false}) {
        const auto tile = is_key ? cache.view.keys(0, 0, 66) : cache.view.values(0, 0, 66);
        const float before = std::exchange(tile.scales()[2], kNaN);
        expect(std::ranges::all_of(attend(way, {66}, q, cache)[0], [](float x) { return std::isnan(x); }));
        expect(std::ranges::none_of(attend(way, {65}, q, cache)[0], [](float x) { return std::isnan(x); }));
        tile.scales()[2] = before;
      }
    }
  };
}

const suite<"coded attention"> coded_attention = [] {
  const auto ways = all_ways();
#if defined(__aarch64__)
  // Whole numbers have one sum; what is left is float32 in one order, and every processor of this family fuses.
  "every way of the fast mode gives the same bits"_test = [&] {
    expect(fatal(ways.size() > 1)) << "a way beside the exact one";
    Random random(8);
    for (const Shape& shape : {Shape{{5, 1, 128}, 16, KvCode::q4}, {{8, 2, 64}, 0, KvCode::q8}, {{8, 1, 512}, 128, KvCode::q8}}) {
      Cache cache(shape, 200);
      cache.fill(random, 200);
      const FloatRows q = random_rows(random, 3, shape.heads.heads * shape.heads.head_dim);
      const FloatRows first = attend(ways[1], {7, 100, 199}, q, cache);
      for (std::size_t i = 2; i < ways.size(); ++i) {
        const FloatRows other = attend(ways[i], {7, 100, 199}, q, cache);
        for (std::size_t r = 0; r < q.size(); ++r) expect(same_bits(first[r], other[r])) << ways[i].name << r;
      }
    }
  };
#endif

  // Full layers of E2B, E4B, 12B, 26B-A4B and pebble, odd numbers of heads, the smallest sizes.
  std::vector<Shape> shapes;
  for (const KvCode code : {KvCode::q8, KvCode::q4})
    for (const auto& [heads, pairs] : {std::pair{cpu::HeadShape{8, 1, 512}, 0}, {{8, 2, 512}, 0}, {{16, 1, 512}, 64}, {{16, 2, 512}, 64}, {{4, 1, 128}, 16},
                                       {{3, 1, 64}, 8}, {{5, 1, 8}, 0}, {{2, 2, 32}, 4}})
      shapes.push_back({heads, pairs, code});
  for (const Way& way : ways) {
    for (const Shape& shape : shapes) {
      if (is_emulated() && shape.heads.head_dim > 128) continue;
      test_near(way, shape);
      if (shape.heads.head_dim <= 128) test_independent(way, shape);
    }
    for (const Shape& shape : {Shape{{8, 1, 64}, 0, KvCode::q8}, Shape{{16, 1, 32}, 8, KvCode::q4}, Shape{{3, 1, 64}, 16, KvCode::q8}})
      if (!is_emulated()) test_together(way, shape);
    test_no_number(way);
  }
};

}  // namespace
}  // namespace lapidary::test::attention_coded_test
