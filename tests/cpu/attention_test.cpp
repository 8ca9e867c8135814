// attention: the definition over all head layouts, and the same bits wherever a row, its session or its ring lies.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "graph/graph.hpp"
#include "reference/attention.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using graph::kTile;

graph::Row row_at(int position, int block_end, int slot = 0) {
  return {.slot = slot, .position = position, .token = 9, .block_end = block_end};
}
graph::Row row_at(int position) { return row_at(position, position); }

int round_up_to_tile(int positions) { return (positions + kTile - 1) / kTile * kTile; }

// What one session has in its cache: keys and values of all positions from 0 on, [kv heads][positions][head_dim].
struct History {
  cpu::HeadShape shape;
  int positions;
  std::vector<FloatRows> keys, values;

  History(Random& random, cpu::HeadShape s, int count, double key_size = 1.0) : shape(s), positions(count) {
    for (int head = 0; head < s.kv_heads; ++head) {
      keys.push_back(random_rows(random, count, s.head_dim, -key_size, key_size));
      values.push_back(random_rows(random, count, s.head_dim));
    }
  }
};

// A cache of several sessions, all NaN but for the positions [begin, end) of one.
struct Cache {
  std::vector<float> k, v;
  link::KvCache view;

  Cache(const History& history, int capacity, int begin, int end, int slot) {
    const auto& shape = history.shape;
    const std::size_t stride = static_cast<std::size_t>(shape.kv_heads) * capacity * shape.head_dim + 3;
    k.assign(stride * (slot + 1), kUntouched);
    v = k;
    view = {k.data(), v.data(), shape.kv_heads, shape.head_dim, capacity, stride};
    for (int head = 0; head < shape.kv_heads; ++head)
      for (int t = begin; t < end; ++t) {
        std::copy_n(history.keys[head][t].begin(), shape.head_dim, k.begin() + view.index(slot, head, t));
        std::copy_n(history.values[head][t].begin(), shape.head_dim, v.begin() + view.index(slot, head, t));
      }
  }
};

FloatRows attention(const std::vector<graph::Row>& rows, const FloatRows& q, const Cache& cache,
                    const cpu::HeadShape& shape, int window, int parts = 1) {
  const RowBuffer in(q);
  RowBuffer out(static_cast<int>(rows.size()), shape.heads * shape.head_dim);
  in_parts(parts, [&](cpu::Part part) { cpu::attention(rows, in.in(), cache.view, shape, window, out.out(), part); });
  return out.rows();
}

// The first position a row sees.
int first_visible(const graph::Row& row, int window) { return window > 0 ? std::max(0, row.position - window + 1) : 0; }
int last_visible(const graph::Row& row, int window) { return window > 0 ? row.block_end : row.position; }

// One row with nothing in the cache but what it may see.
std::vector<float> attention_alone(const History& history, graph::Row row, const std::vector<float>& q, int window) {
  const int begin = first_visible(row, window), end = last_visible(row, window) + 1;
  const Cache cache(history, round_up_to_tile(end), begin, end, row.slot);
  return attention({row}, {q}, cache, history.shape, window).front();
}

void expect_near_definition(const History& history, const graph::Row& row, const std::vector<float>& q, int window) {
  const auto& shape = history.shape;
  const std::vector<float> got = attention_alone(history, row, q, window);
  std::vector<double> expected, allowed;
  for (int head = 0; head < shape.heads; ++head) {
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const std::vector<double> query(q.begin() + head * shape.head_dim, q.begin() + (head + 1) * shape.head_dim);
    reference::Table keys(row.block_end + 1), values(row.block_end + 1), sizes(row.block_end + 1);
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
      << shape.heads << "heads," << shape.kv_heads << "K/V heads of" << shape.head_dim << "window" << window
      << "position" << row.position << "to" << row.block_end;
}

struct Layout {
  cpu::HeadShape shape;
  int window;
};

const std::vector<Layout> kLayouts = {
    {{8, 1, 256}, 512},    {{8, 1, 512}, 0},                      // E2B
    {{8, 2, 256}, 512},    {{8, 2, 512}, 0},                      // E4B
    {{16, 8, 256}, 1024},  {{16, 1, 512}, 0}, {{16, 2, 512}, 0},  // 12B and 26B-A4B
    {{32, 16, 256}, 1024}, {{32, 4, 512}, 0},                     // 31B
    {{4, 2, 32}, 16},      {{4, 1, 64}, 100}, {{6, 3, 128}, 64},  // small test models
};

suite<"attention"> definition_suite = [] {
  for (const auto& [shape, window] : kLayouts) {
    test("attention of " + std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " heads of " +
         std::to_string(shape.head_dim) + ", window " + std::to_string(window) +
         " is near its definition") = [&shape, window] {
      Random random(1);
      const int edge = window > 0 ? window : 128;
      const History history(random, shape, edge + 3 * kTile);
      for (const int position : {0, 1, kTile - 1, kTile, edge - 1, edge, edge + kTile + 5})
        expect_near_definition(history, row_at(position), random.floats(shape.heads * shape.head_dim, -0.3, 0.3),
                               window);
    };
  }

  "attention holds for scores far apart and for scores all alike"_test = [] {
    Random random(2);
    const cpu::HeadShape shape{4, 2, 64};
    for (const double size : {0.0, 1e-3, 1.0, 8.0})
      for (const int window : {0, 100}) {
        const History history(random, shape, 300, size);
        expect_near_definition(history, row_at(299), random.floats(shape.heads * shape.head_dim, -1.5, 1.5), window);
      }
  };

  "attention finds the largest score in the first tile, in the last and between"_test = [] {
    Random random(3);
    const cpu::HeadShape shape{2, 1, 32};
    for (const int place : {0, 63, 64, 130, 255, 256, 299}) {
      History history(random, shape, 300, 0.1);
      const auto q = random.floats(64, 1, 2);
      history.keys[0][place].assign(32, 3.0f);  // about 140 above the others
      const auto got = attention_alone(history, row_at(299), q, 0);
      for (int i = 0; i < 64; ++i) expect(eq(got[i], history.values[0][place][i % 32])) << "largest score at" << place;
    }
  };

  "a row sees the rest of its image in a sliding layer, not in a full one"_test = [] {
    Random random(4);
    const cpu::HeadShape shape{4, 2, 64};
    const History history(random, shape, 400);
    for (const int window : {0, 100, 64})
      for (const auto& [position, end] :
           {std::pair{0, 70}, std::pair{10, 11}, std::pair{63, 64}, std::pair{100, 355}, std::pair{200, 399}})
        expect_near_definition(history, row_at(position, end), random.floats(4 * 64, -0.3, 0.3), window);
  };
};

suite<"attention placement"> placement_suite = [] {
  "attention gives a row the same bits among any others, around tile and window borders"_test = [] {
    for (const auto& [shape, window] :
         {Layout{{8, 2, 256}, 512}, Layout{{8, 1, 512}, 0}, Layout{{4, 2, 32}, 16}, Layout{{6, 3, 128}, 64}}) {
      Random random(5);
      const History history(random, shape, 700);
      const Cache cache(history, 704, 0, 700, 0);
      std::vector<graph::Row> rows;  // runs of eight across the borders of tiles and of the window
      for (const int middle : {4, 64, 128, 512, 516, 576, 690})
        for (int p = middle - 4; p < middle + 4; ++p) rows.push_back(row_at(p));
      const FloatRows q = random_rows(random, static_cast<int>(rows.size()), shape.heads * shape.head_dim, -0.3, 0.3);
      expect_rows_independent(random, static_cast<int>(rows.size()), [&](const std::vector<int>& numbers, int parts) {
        return attention(gather(rows, numbers), gather(q, numbers), cache, shape, window, parts);
      });
    }
  };

  "attention gives a row of an image the same bits as one call or row by row"_test = [] {
    Random random(6);
    const cpu::HeadShape shape{4, 2, 64};
    const History history(random, shape, 300);
    const Cache cache(history, 320, 0, 300, 0);
    std::vector<graph::Row> rows;
    for (int p = 90; p < 157; ++p) rows.push_back(row_at(p, p < 150 ? 149 : p));
    const FloatRows q = random_rows(random, 67, 4 * 64, -0.3, 0.3);
    for (const int window : {0, 64})
      expect_rows_independent(random, 67, [&](const std::vector<int>& numbers, int parts) {
        return attention(gather(rows, numbers), gather(q, numbers), cache, shape, window, parts);
      });
  };

  "a sliding row has the same bits wherever the ring has wrapped, with NaN all around its window"_test = [] {
    Random random(7);
    for (const auto& [shape, window] :
         {Layout{{8, 2, 256}, 512}, Layout{{4, 2, 32}, 16}, Layout{{6, 3, 128}, 64}, Layout{{4, 1, 64}, 100}}) {
      const History history(random, shape, 3 * window + 400);
      const int smallest = round_up_to_tile(window + 16);
      for (const int position : {0, 5, kTile - 1, kTile, window - 1, window, window + 1, smallest - 1, smallest,
                                 smallest + 1, 2 * smallest - 1, 2 * smallest + 7, 3 * window + 399}) {
        if (position >= history.positions) continue;
        const auto q = random.floats(shape.heads * shape.head_dim, -0.3, 0.3);
        const auto expected = attention_alone(history, row_at(position), q, window);
        for (const int capacity : {smallest, smallest + kTile, smallest + 3 * kTile})
          for (const int slot : {0, 2}) {
            const auto row = row_at(position, position, slot);
            const Cache cache(history, capacity, first_visible(row, window), position + 1, slot);
            expect(same_bits(attention({row}, {q}, cache, shape, window).front(), expected))
                << "position" << position << "capacity" << capacity << "slot" << slot << "window" << window;
          }
      }
    }
  };

  "rejected rows left behind in the cache do not matter"_test = [] {
    Random random(8);
    const cpu::HeadShape shape{8, 2, 256};
    for (const int window : {0, 512}) {
      const History history(random, shape, 700);
      for (const int position : {60, 63, 64, 511, 512, 640}) {
        const auto q = random.floats(shape.heads * shape.head_dim, -0.3, 0.3);
        const int begin = first_visible(row_at(position), window);
        const int capacity = window > 0 ? round_up_to_tile(window + 16) : 704;
        const Cache clean(history, capacity, begin, position + 1, 0), dirty(history, capacity, begin, position + 8, 0);
        const auto expected = attention({row_at(position)}, {q}, clean, shape, window).front();
        expect(same_bits(attention({row_at(position)}, {q}, dirty, shape, window).front(), expected))
            << "position" << position;
      }
    }
  };

  "rows of several sessions in one call do not see each other"_test = [] {
    Random random(9);
    const cpu::HeadShape shape{4, 2, 64};
    const int sessions = 3, window = 64;
    std::vector<History> histories;
    for (int slot = 0; slot < sessions; ++slot) histories.emplace_back(random, shape, 200);
    Cache all(histories[0], 128, 0, 0, sessions - 1);  // room for all, still empty
    std::vector<graph::Row> rows;
    for (int slot = 0; slot < sessions; ++slot) {
      const auto row = row_at(70 + 50 * slot, 70 + 50 * slot, slot);
      const Cache one(histories[slot], 128, first_visible(row, window), row.position + 1, slot);
      const std::size_t count = one.view.session_stride, from = slot * count;
      std::copy_n(one.k.begin() + from, count, all.k.begin() + from);
      std::copy_n(one.v.begin() + from, count, all.v.begin() + from);
      rows.push_back(row);
    }
    const FloatRows q = random_rows(random, sessions, 4 * 64, -0.3, 0.3);
    for (const int parts : {1, 2, 3}) {
      const FloatRows got = attention(rows, q, all, shape, window, parts);
      for (int r = 0; r < sessions; ++r)
        expect(same_bits(got[r], attention_alone(histories[r], rows[r], q[r], window))) << "session" << r;
    }
  };
};

}  // namespace
}  // namespace lapidary::test
