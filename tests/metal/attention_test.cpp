// attention on the device: the definition over all head layouts, and the same bits wherever a row, its session or its ring
// lies, and however its positions are split.
#include <boost/ut.hpp>

#include "graph/graph.hpp"
#include "metal/stage.hpp"
#include "reference/attention.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using graph::kTile;
using graph::Op;
using metal::kKvRange;

graph::Row row_at(int position, int block_end, int slot = 0) {
  return {.slot = slot, .position = position, .token = 9, .block_end = block_end};
}
graph::Row row_at(int position) { return row_at(position, position); }

int round_up_to_tile(int positions) { return (positions + kTile - 1) / kTile * kTile; }

struct Layout {
  cpu::HeadShape shape;
  int window;
  bool bf16 = false;
};

// What one session has in its cache: keys and values of all positions from 0 on, [kv heads][positions][head_dim].
struct History {
  Layout layout;
  int positions;
  std::vector<FloatRows> keys, values;

  History(Random& random, const Layout& l, int count, double key_size = 1.0) : layout(l), positions(count) {
    for (int head = 0; head < l.shape.kv_heads; ++head) {
      keys.push_back(random_rows(random, count, l.shape.head_dim, -key_size, key_size));
      values.push_back(random_rows(random, count, l.shape.head_dim));
    }
    if (!l.bf16) return;
    for (auto* all : {&keys, &values})
      for (FloatRows& rows : *all)
        for (auto& row : rows)
          for (float& x : row) x = from_bf16(to_bf16(x));
  }
};

// A cache of several sessions, all NaN but for the positions [begin, end) of one.
struct Cache {
  Layout layout;
  int capacity;
  std::size_t slot_elements;
  std::vector<float> k, v;

  Cache(const History& history, int ring_slots, int begin, int end, int slot)
      : layout(history.layout), capacity(ring_slots) {
    const auto& shape = layout.shape;
    slot_elements = static_cast<std::size_t>(shape.kv_heads) * capacity * shape.head_dim + 8;
    k.assign(slot_elements * (slot + 1), kUntouched);
    v = k;
    for (int head = 0; head < shape.kv_heads; ++head)
      for (int t = begin; t < end; ++t) {
        const std::size_t ring = static_cast<std::size_t>(head) * capacity + t % capacity;
        const std::size_t at = slot * slot_elements + ring * shape.head_dim;
        std::copy_n(history.keys[head][t].begin(), shape.head_dim, k.begin() + at);
        std::copy_n(history.values[head][t].begin(), shape.head_dim, v.begin() + at);
      }
  }
};

FloatRows attention(const std::vector<graph::Row>& rows, const FloatRows& q, const Cache& cache, int kv_ranges = 1,
                    metal::NumericClass numeric = metal::NumericClass::round) {
  const auto& [heads, kv_heads, head_dim] = cache.layout.shape;
  const graph::Dims dims{.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .window = cache.layout.window};
  const int count = static_cast<int>(rows.size());
  Stage stage(Op::attention, dims, count, numeric);
  stage.row_table(rows);
  stage.in(0, q);
  stage.kv(cache.k, cache.v, cache.capacity, cache.slot_elements, cache.layout.bf16);
  stage.out(0, heads * head_dim);
  stage.bound().kv_ranges = kv_ranges;
  if (const std::size_t bytes = metal::attention_scratch_bytes(dims, count, kv_ranges))
    stage.bound().scratch = stage.hold(std::vector<float>(bytes / sizeof(float), kUntouched));
  stage.play();
  return stage.floats(0);
}

// The first and the last position that a row sees.
int first_visible(const graph::Row& row, int window) { return window > 0 ? std::max(0, row.position - window + 1) : 0; }
int last_visible(const graph::Row& row, int window) { return window > 0 ? row.block_end : row.position; }

// One row with nothing in the cache but what it may see.
std::vector<float> attention_alone(const History& history, graph::Row row, const std::vector<float>& q, int kv_ranges = 1) {
  const int begin = first_visible(row, history.layout.window), end = last_visible(row, history.layout.window) + 1;
  const Cache cache(history, round_up_to_tile(end), begin, end, row.slot);
  return attention({row}, {q}, cache, kv_ranges).front();
}

std::vector<float> random_query(Random& random, const Layout& layout, double size = 0.3) {
  return random.floats(layout.shape.heads * layout.shape.head_dim, -size, size);
}

void expect_near_definition(const History& history, const graph::Row& row, const std::vector<float>& q, int kv_ranges = 1) {
  const auto& [shape, window, bf16] = history.layout;
  const std::vector<float> got = attention_alone(history, row, q, kv_ranges);
  std::vector<double> expected, allowed;
  for (int head = 0; head < shape.heads; ++head) {
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const std::vector<double> query(q.begin() + head * shape.head_dim, q.begin() + (head + 1) * shape.head_dim);
    reference::Table keys(row.block_end + 1), values(row.block_end + 1);
    double largest = 0.0;  // of sum |q||k| over the visible keys
    for (int t = first_visible(row, window); t <= last_visible(row, window); ++t) {
      keys[t] = doubles(history.keys[kv_head][t]);
      values[t] = doubles(history.values[kv_head][t]);
      double size = 0.0;
      for (int i = 0; i < shape.head_dim; ++i) size += std::abs(query[i] * keys[t][i]);
      largest = std::max(largest, size);
    }
    for (const double value : reference::attention_head(query, keys, values, row.position, row.block_end, window)) {
      expected.push_back(value);
      // A score is off by a few roundings of sum |q||k|, its exponential by that factor, values are below 2.
      allowed.push_back(2.0 * (1e-6 + 1e-7 * largest));
    }
  }
  expect(worst_error(got, expected, allowed) <= 1.0_d)
      << shape.heads << "heads," << shape.kv_heads << "K/V heads of" << shape.head_dim << "window" << window << "position"
      << row.position << "to" << row.block_end << (bf16 ? "bfloat16" : "float32");
}

std::string label(const Layout& layout) {
  return std::to_string(layout.shape.heads) + "/" + std::to_string(layout.shape.kv_heads) + " heads of " +
         std::to_string(layout.shape.head_dim) + ", window " + std::to_string(layout.window) +
         (layout.bf16 ? ", in bfloat16" : ", in float32");
}

// E2B, E4B, 12B, 26B-A4B and 31B, some with fewer heads in the same groups, then small test models and odd sizes.
const std::vector<Layout> kLayouts = {
    {{8, 1, 256}, 512, true}, {{8, 1, 512}, 0, true},  {{8, 2, 256}, 512}, {{8, 2, 512}, 0},   {{4, 2, 256}, 1024, true},
    {{16, 1, 512}, 0, true},  {{16, 2, 512}, 0},       {{4, 2, 32}, 16},   {{4, 2, 32}, 16, true}, {{4, 1, 64}, 100},
    {{6, 3, 128}, 64, true},  {{3, 1, 96}, 80},        {{2, 2, 160}, 0},   {{2, 1, 384}, 70, true},
};

suite<"metal attention"> definition_suite = [] {
  for (const Layout& layout : kLayouts)
    test("attention of " + label(layout) + " is near its definition") = [&layout] {
      Random random(1);
      const int edge = layout.window > 0 ? layout.window : 128;
      const History history(random, layout, edge + 3 * kTile);
      for (const int position : {0, 1, kTile - 1, kTile, edge - 1, edge, edge + kTile + 5})
        expect_near_definition(history, row_at(position), random_query(random, layout));
    };

  "attention holds for scores far apart and for scores all alike"_test = [] {
    Random random(2);
    for (const double size : {0.0, 1e-3, 1.0, 8.0})
      for (const int window : {0, 100}) {
        const History history(random, {{4, 2, 64}, window}, 300, size);
        expect_near_definition(history, row_at(299), random_query(random, history.layout, 1.5));
      }
  };

  "attention finds the largest score in the first tile, in the last and between"_test = [] {
    Random random(3);
    for (const int place : {0, 63, 64, 130, 255, 256, 299}) {
      History history(random, {{2, 1, 32}, 0}, 300, 0.1);
      const auto q = random.floats(64, 1, 2);
      history.keys[0][place].assign(32, 3.0f);  // about 140 above the others
      const auto got = attention_alone(history, row_at(299), q);
      for (int i = 0; i < 64; ++i) expect(eq(got[i], history.values[0][place][i % 32])) << "largest score at" << place;
    }
  };

  "a row sees the rest of its image in a sliding layer, not in a full one"_test = [] {
    Random random(4);
    for (const int window : {0, 100, 64}) {
      const History history(random, {{4, 2, 64}, window}, 400);
      for (const auto& [position, end] :
           {std::pair{0, 70}, std::pair{10, 11}, std::pair{63, 64}, std::pair{100, 355}, std::pair{200, 399}})
        expect_near_definition(history, row_at(position, end), random_query(random, history.layout));
    }
  };
};

suite<"metal attention placement"> placement_suite = [] {
  for (const Layout& layout : {Layout{{8, 2, 256}, 512, true}, Layout{{8, 1, 512}, 0, true}, Layout{{4, 2, 32}, 16},
                               Layout{{6, 3, 128}, 64}, Layout{{16, 4, 64}, 0, true}})
    test("attention of " + label(layout) + " gives a row the same bits among any others, around borders") = [layout] {
      Random random(5);
      const History history(random, layout, 600);
      const Cache cache(history, 640, 0, 600, 0);
      std::vector<graph::Row> rows;
      for (const int border : {4, 64, 512, 576})
        for (int p = border - 2; p < border + 2; ++p) rows.push_back(row_at(p));
      const int count = static_cast<int>(rows.size());
      const FloatRows q = random_rows(random, count, layout.shape.heads * layout.shape.head_dim, -0.3, 0.3);
      FloatRows alone;
      for (int r = 0; r < count; ++r) alone.push_back(attention({rows[r]}, {q[r]}, cache).front());
      for (const int width : {2, 3, 4, 5, 6, 7, 8, 16}) {
        const std::vector<int> numbers = random.pick(width, count);
        const FloatRows together = attention(gather(rows, numbers), gather(q, numbers), cache);
        for (int r = 0; r < width; ++r)
          expect(same_bits(together[r], alone[numbers[r]])) << "position" << rows[numbers[r]].position << "width" << width;
      }
    };

  "attention gives a row of an image the same bits as one call or row by row"_test = [] {
    Random random(6);
    for (const int window : {0, 64}) {
      const History history(random, {{4, 2, 64}, window}, 300);
      const Cache cache(history, 320, 0, 300, 0);
      std::vector<graph::Row> rows;
      for (int p = 140; p < 157; ++p) rows.push_back(row_at(p, p < 150 ? 149 : p));
      const FloatRows q = random_rows(random, 17, 4 * 64, -0.3, 0.3);
      expect_rows_independent(random, 17, [&](const std::vector<int>& numbers, int) {
        return attention(gather(rows, numbers), gather(q, numbers), cache);
      });
    }
  };

  "a sliding row has the same bits wherever the ring has wrapped, with NaN all around its window"_test = [] {
    Random random(7);
    for (const Layout& layout : {Layout{{2, 1, 256}, 512, true}, Layout{{4, 2, 32}, 16}, Layout{{6, 3, 128}, 64, true},
                                 Layout{{4, 1, 64}, 100}}) {
      const int window = layout.window, smallest = round_up_to_tile(window + 16);
      const History history(random, layout, 3 * window + 400);
      for (const int position : {0, 5, kTile - 1, kTile, window - 1, window, window + 1, smallest - 1, smallest,
                                 smallest + 1, 2 * smallest - 1, 2 * smallest + 7, 3 * window + 399}) {
        if (position >= history.positions) continue;
        const auto q = random_query(random, layout);
        const auto expected = attention_alone(history, row_at(position), q);
        for (const int capacity : {smallest, smallest + 3 * kTile})
          for (const int slot : {0, 2}) {
            const auto row = row_at(position, position, slot);
            const Cache cache(history, capacity, first_visible(row, window), position + 1, slot);
            expect(same_bits(attention({row}, {q}, cache).front(), expected))
                << "position" << position << "capacity" << capacity << "slot" << slot << "window" << window;
          }
      }
    }
  };

  "rejected rows left behind in the cache do not matter"_test = [] {
    Random random(8);
    for (const int window : {0, 512}) {
      const Layout layout{{4, 2, 256}, window, true};
      const History history(random, layout, 700);
      for (const int position : {60, 63, 64, 511, 512, 640}) {
        const auto q = random_query(random, layout);
        const int begin = first_visible(row_at(position), window);
        const int capacity = window > 0 ? round_up_to_tile(window + 16) : 704;
        const Cache clean(history, capacity, begin, position + 1, 0), dirty(history, capacity, begin, position + 8, 0);
        const auto expected = attention({row_at(position)}, {q}, clean).front();
        expect(same_bits(attention({row_at(position)}, {q}, dirty).front(), expected)) << "position" << position;
      }
    }
  };

  "rows of several sessions in one call do not see each other"_test = [] {
    Random random(9);
    const Layout layout{{4, 2, 64}, 64};
    const int sessions = 3;
    std::vector<History> histories;
    for (int slot = 0; slot < sessions; ++slot) histories.emplace_back(random, layout, 200);
    Cache all(histories[0], 128, 0, 0, sessions - 1);  // room for all, still empty
    std::vector<graph::Row> rows;
    for (int slot = 0; slot < sessions; ++slot) {
      const auto row = row_at(70 + 50 * slot, 70 + 50 * slot, slot);
      const Cache one(histories[slot], 128, first_visible(row, layout.window), row.position + 1, slot);
      const std::size_t count = one.slot_elements, from = slot * count;
      std::copy_n(one.k.begin() + from, count, all.k.begin() + from);
      std::copy_n(one.v.begin() + from, count, all.v.begin() + from);
      rows.push_back(row);
    }
    const FloatRows q = random_rows(random, sessions, 4 * 64, -0.3, 0.3);
    const FloatRows got = attention(rows, q, all);
    for (int r = 0; r < sessions; ++r)
      expect(same_bits(got[r], attention_alone(histories[r], rows[r], q[r]))) << "session" << r;
  };

  "the rows of the output window find their positions in the row table"_test = [] {
    Random random(10);
    const Layout layout{{2, 1, 64}, 0};
    const History history(random, layout, 100);
    std::vector<graph::Row> rows;
    for (int p = 60; p < 66; ++p) rows.push_back(row_at(p));
    const FloatRows q = random_rows(random, 6, 2 * 64, -0.3, 0.3);
    const Cache cache(history, 128, 0, 66, 0);
    Stage stage(Op::attention, {.heads = 2, .kv_heads = 1, .head_dim = 64}, 4);
    stage.row_table(rows);
    stage.in(0, q);
    stage.kv(cache.k, cache.v, cache.capacity, cache.slot_elements, false);
    stage.out(0, 2 * 64);
    stage.params().rows = metal::layout::kOutputRows;
    stage.params().in[0].windowed = 1;
    stage.run().row_count = 6;
    stage.run().first_output = 3;
    stage.run().output_count = 3;
    stage.play();
    const FloatRows got = stage.floats(0);
    for (int r = 0; r < 3; ++r) expect(same_bits(got[r], attention_alone(history, rows[3 + r], q[3 + r]))) << "row" << r;
    expect(std::all_of(got[3].begin(), got[3].end(), is_untouched));
  };
};

suite<"metal attention over long contexts"> ranges_suite = [] {
  for (const Layout& layout : {Layout{{4, 2, 64}, 0}, Layout{{2, 1, 512}, 0, true}})
    test("attention of " + label(layout) + " has the same bits however its positions are split") = [layout] {
      Random random(11);
      const History history(random, layout, 3 * kKvRange + 100);
      for (const int position : {5, kKvRange - 1, kKvRange, kKvRange + 70, 3 * kKvRange, 3 * kKvRange + 99}) {
        const auto q = random_query(random, layout);
        const auto expected = attention_alone(history, row_at(position), q);
        for (const int ranges : {2, 4, 8})
          if (position < ranges * kKvRange)
            expect(same_bits(attention_alone(history, row_at(position), q, ranges), expected))
                << "position" << position << "in" << ranges;
      }
      expect_near_definition(history, row_at(history.positions - 1), random_query(random, layout), 4);
    };

  "rows of a round beyond a range have the same bits among any others, and as a prompt the same in one piece"_test = [] {
    Random random(12);
    const Layout layout{{4, 1, 32}, 0, true};
    const History history(random, layout, 2 * kKvRange);
    const Cache cache(history, 2 * kKvRange, 0, history.positions, 0);
    std::vector<graph::Row> rows;
    for (int r = 0; r < 8; ++r) rows.push_back(row_at(kKvRange - 4 + r));
    const FloatRows q = random_rows(random, 8, 4 * 32, -0.3, 0.3);
    expect_rows_independent(random, 8, [&](const std::vector<int>& numbers, int parts) {
      return attention(gather(rows, numbers), gather(q, numbers), cache, 1 << (parts - 1) << 1);
    });
    const FloatRows prompt = attention(rows, q, cache, 2, metal::NumericClass::prompt);
    const FloatRows round = attention(rows, q, cache, 2);
    for (int r = 0; r < 8; ++r) expect(same_bits(prompt[r], round[r])) << "row" << r;
  };

  "a window is never split"_test = [] {
    Random random(13);
    const Layout layout{{4, 2, 32}, 100};
    const History history(random, layout, kKvRange + 80);
    const auto q = random_query(random, layout);
    expect_near_definition(history, row_at(kKvRange + 50), q, 4);
    expect(eq(metal::attention_scratch_bytes({.heads = 4, .head_dim = 32, .window = 100}, 8, 4), 0_u));
  };
};

}  // namespace
}  // namespace lapidary::test
