// attention of a backend: near its definition, and the same bits wherever a row, its session or its ring lies.
#pragma once

#include <string>

#include "graph/graph.hpp"
#include "numeric/bf16.hpp"
#include "reference/attention.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

using graph::kTile;

inline int round_up_to_tile(int positions) { return (positions + kTile - 1) / kTile * kTile; }

struct AttentionLayout {
  Heads shape;
  int window;
  bool bf16 = false;  // K/V
};

inline std::string label(const AttentionLayout& layout) {
  return std::to_string(layout.shape.heads) + "/" + std::to_string(layout.shape.kv_heads) + " heads of " +
         std::to_string(layout.shape.head_dim) + ", window " + std::to_string(layout.window) +
         (layout.bf16 ? ", in bfloat16" : ", in float32");
}

// What one session has in its cache: keys and values of all positions from 0 on, [kv heads][positions][head_dim].
struct History {
  AttentionLayout layout;
  int positions;
  std::vector<FloatRows> keys, values;

  History(Random& random, const AttentionLayout& l, int count, double key_size = 1.0) : layout(l), positions(count) {
    for (int head = 0; head < l.shape.kv_heads; ++head) {
      keys.push_back(random_rows(random, count, l.shape.head_dim, -key_size, key_size));
      values.push_back(random_rows(random, count, l.shape.head_dim));
    }
    if (!l.bf16) return;
    for (auto* all : {&keys, &values})
      for (FloatRows& rows : *all)
        for (auto& row : rows)
          for (float& x : row) x = numeric::from_bf16(numeric::to_bf16(x));
  }
};

// Keys and values of several sessions, [session slot][kv head][ring slot][head_dim], all NaN but for the positions
// [begin, end) of one.
struct KvMemory {
  AttentionLayout layout;
  int capacity;
  std::size_t slot_elements;
  std::vector<float> k, v;

  // gap: elements between sessions
  KvMemory(const History& history, int gap, int ring_slots, int begin, int end, int slot)
      : layout(history.layout), capacity(ring_slots) {
    const auto& shape = layout.shape;
    slot_elements = static_cast<std::size_t>(shape.kv_heads) * capacity * shape.head_dim + gap;
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

struct AttentionKernel {
  std::function<FloatRows(const std::vector<graph::Row>& rows, const FloatRows& q, const KvMemory& memory, int parts)>
      attention;
  int slot_gap;  // elements between sessions
};

// The first and the last position that a row sees.
inline int first_visible(const graph::Row& row, int window) {
  return window > 0 ? std::max(row.begin, row.position - window + 1) : row.begin;
}
inline int last_visible(const graph::Row& row, int window) { return window > 0 ? row.block_end : row.position; }

// One row with nothing in the cache but what it may see.
inline std::vector<float> attention_alone(const AttentionKernel& kernel, const History& history, const graph::Row& row,
                                          const std::vector<float>& q) {
  const int begin = first_visible(row, history.layout.window), end = last_visible(row, history.layout.window) + 1;
  const KvMemory memory(history, kernel.slot_gap, round_up_to_tile(end), begin, end, row.slot);
  return kernel.attention({row}, {q}, memory, 1).front();
}

inline std::vector<float> random_query(Random& random, const AttentionLayout& layout, double size = 0.3) {
  return random.floats(layout.shape.heads * layout.shape.head_dim, -size, size);
}

inline void expect_attention(const AttentionKernel& kernel, const History& history, const graph::Row& row,
                             const std::vector<float>& q) {
  const auto& [shape, window, bf16] = history.layout;
  const std::vector<float> got = attention_alone(kernel, history, row, q);
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
    for (const double value : reference::attention_head(query, keys, values, row.position, row.block_end, window, row.begin)) {
      expected.push_back(value);
      // A score is off by a few roundings of sum |q||k|, its exponential by that factor, values are below 2.
      allowed.push_back(2.0 * (1e-6 + 1e-7 * largest));
    }
  }
  boost::ut::expect(worst_error(got, expected, allowed) <= 1.0)
      << label(history.layout) << "position" << row.position << "to" << row.block_end;
}

inline void test_attention(const AttentionKernel& kernel, const std::vector<AttentionLayout>& layouts) {
  using namespace boost::ut;

  for (const AttentionLayout& layout : layouts)
    boost::ut::test("attention of " + label(layout) + " is near its definition") = [&kernel, &layout] {
      Random random(1);
      const int edge = layout.window > 0 ? layout.window : 128;
      const History history(random, layout, edge + 3 * kTile);
      for (const int position : {0, 1, kTile - 1, kTile, edge - 1, edge, edge + kTile + 5})
        expect_attention(kernel, history, row_at(position), random_query(random, layout));
    };

  "attention holds for scores far apart and for scores all alike"_test = [&] {
    Random random(2);
    for (const double size : {0.0, 1e-3, 1.0, 8.0})
      for (const int window : {0, 100}) {
        const History history(random, {{4, 2, 64}, window}, 300, size);
        expect_attention(kernel, history, row_at(299), random_query(random, history.layout, 1.5));
      }
  };

  "attention finds the largest score in the first tile, in the last and between"_test = [&] {
    Random random(3);
    for (const int place : {0, 63, 64, 130, 255, 256, 299}) {
      History history(random, {{2, 1, 32}, 0}, 300, 0.1);
      const auto q = random.floats(64, 1, 2);
      history.keys[0][place].assign(32, 3.0f);  // about 140 above the others
      const auto got = attention_alone(kernel, history, row_at(299), q);
      for (int i = 0; i < 64; ++i) expect(eq(got[i], history.values[0][place][i % 32])) << "largest score at" << place;
    }
  };

  "a row sees the rest of its image in a sliding layer, not in a full one"_test = [&] {
    Random random(4);
    for (const int window : {0, 100, 64}) {
      const History history(random, {{4, 2, 64}, window}, 400);
      for (const auto& [position, end] :
           {std::pair{0, 70}, std::pair{10, 11}, std::pair{63, 64}, std::pair{100, 355}, std::pair{200, 399}})
        expect_attention(kernel, history, row_at(position, end, 0), random_query(random, history.layout));
    }
  };
}

inline graph::Row row_from(int begin, int position, int block_end) {
  return {.slot = 0, .position = position, .token = 9, .block_end = block_end, .begin = begin};
}

// Of a block drafter: rows see nothing before the beginning of its context, and all of their block where nothing limits them.
inline void test_attention_of_blocks(const AttentionKernel& kernel, const std::vector<bool>& in_bf16) {
  using namespace boost::ut;

  "a row sees nothing before the first position of its context"_test = [&] {
    Random random(12);
    for (const bool bf16 : in_bf16)
      for (const int window : {0, 100, graph::kNoLimit}) {
        const History history(random, {{4, 2, 16}, window, bf16}, 400);
        for (const int position : {0, 64, 127, 300, 392})
          for (const int begin : {0, 1, 63, 64, 130, 292, 300, 392})
            for (const int ahead : {0, 7})
              if (begin <= position)
                expect_attention(kernel, history, row_from(begin, position, position + ahead), random_query(random, history.layout));
      }
  };

  "rows of blocks have the same bits among any others"_test = [&] {
    Random random(13);
    for (const int window : {0, 100, graph::kNoLimit}) {
      const History history(random, {{8, 2, 128}, window}, 300);
      const KvMemory memory(history, kernel.slot_gap, 320, 0, 300, 0);
      std::vector<graph::Row> rows;
      for (int r = 0; r < 12; ++r) rows.push_back(row_from(r < 6 ? 0 : 20 * r, 250 + r, r % 2 ? 250 + r : 262));
      const FloatRows q = random_rows(random, 12, 8 * 128, -0.3, 0.3);
      expect_rows_independent(random, 12, [&](const std::vector<int>& numbers, int parts) {
        return kernel.attention(gather(rows, numbers), gather(q, numbers), memory, parts);
      });
    }
  };
}

// Runs of rows across the borders of tiles and of the window, `reach` to each side.
inline void expect_rows_around_borders(const AttentionKernel& kernel, const AttentionLayout& layout,
                                       const std::vector<int>& borders, int reach, Company company) {
  Random random(5);
  const History history(random, layout, 700);
  const KvMemory memory(history, kernel.slot_gap, 704, 0, 700, 0);
  std::vector<graph::Row> rows;
  for (const int border : borders)
    for (int p = border - reach; p < border + reach; ++p) rows.push_back(row_at(p));
  company.rows = count_of(rows);
  const FloatRows q = random_rows(random, company.rows, layout.shape.heads * layout.shape.head_dim, -0.3, 0.3);
  expect_rows_alone(random, company, [&](const std::vector<int>& numbers, int parts) {
    return kernel.attention(gather(rows, numbers), gather(q, numbers), memory, parts);
  });
}

// count: of rows, the last 7 come after the image
inline void expect_rows_of_image(const AttentionKernel& kernel, int count) {
  Random random(6);
  for (const int window : {0, 64}) {
    const History history(random, {{4, 2, 64}, window}, 300);
    const KvMemory memory(history, kernel.slot_gap, 320, 0, 300, 0);
    std::vector<graph::Row> rows;
    for (int p = 157 - count; p < 157; ++p) rows.push_back(row_at(p, p < 150 ? 149 : p, 0));
    const FloatRows q = random_rows(random, count, 4 * 64, -0.3, 0.3);
    expect_rows_independent(random, count, [&](const std::vector<int>& numbers, int parts) {
      return kernel.attention(gather(rows, numbers), gather(q, numbers), memory, parts);
    });
  }
}

// more_tiles: rings larger than the smallest one by so many
inline void expect_same_in_any_ring(const AttentionKernel& kernel, const std::vector<AttentionLayout>& layouts,
                                    const std::vector<int>& more_tiles) {
  Random random(7);
  for (const AttentionLayout& layout : layouts) {
    const int window = layout.window, smallest = round_up_to_tile(window + 16);
    const History history(random, layout, 3 * window + 400);
    for (const int position : {0, 5, kTile - 1, kTile, window - 1, window, window + 1, smallest - 1, smallest, smallest + 1,
                               2 * smallest - 1, 2 * smallest + 7, 3 * window + 399}) {
      if (position >= history.positions) continue;
      const auto q = random_query(random, layout);
      const auto expected = attention_alone(kernel, history, row_at(position), q);
      for (const int tiles : more_tiles)
        for (const int slot : {0, 2}) {
          const auto row = row_at(position, slot);
          const int capacity = smallest + tiles * kTile;
          const KvMemory memory(history, kernel.slot_gap, capacity, first_visible(row, window), position + 1, slot);
          boost::ut::expect(same_bits(kernel.attention({row}, {q}, memory, 1).front(), expected))
              << "position" << position << "capacity" << capacity << "slot" << slot << "window" << window;
        }
    }
  }
}

inline void expect_rejected_rows_do_not_matter(const AttentionKernel& kernel, AttentionLayout layout) {
  Random random(8);
  for (const int window : {0, 512}) {
    layout.window = window;
    const History history(random, layout, 700);
    for (const int position : {60, 63, 64, 511, 512, 640}) {
      const auto q = random_query(random, layout);
      const int begin = first_visible(row_at(position), window), gap = kernel.slot_gap;
      const int capacity = window > 0 ? round_up_to_tile(window + 16) : 704;
      const KvMemory clean(history, gap, capacity, begin, position + 1, 0);
      const KvMemory dirty(history, gap, capacity, begin, position + 8, 0);
      const auto expected = kernel.attention({row_at(position)}, {q}, clean, 1).front();
      const auto got = kernel.attention({row_at(position)}, {q}, dirty, 1).front();
      boost::ut::expect(same_bits(got, expected)) << "position" << position;
    }
  }
}

inline void expect_sessions_apart(const AttentionKernel& kernel, const std::vector<int>& all_parts) {
  Random random(9);
  const AttentionLayout layout{{4, 2, 64}, 64};
  const int sessions = 3;
  std::vector<History> histories;
  for (int slot = 0; slot < sessions; ++slot) histories.emplace_back(random, layout, 200);
  KvMemory all(histories[0], kernel.slot_gap, 128, 0, 0, sessions - 1);  // room for all, still empty
  std::vector<graph::Row> rows;
  for (int slot = 0; slot < sessions; ++slot) {
    const auto row = row_at(70 + 50 * slot, slot);
    const KvMemory one(histories[slot], kernel.slot_gap, 128, first_visible(row, layout.window), row.position + 1, slot);
    const std::size_t count = one.slot_elements, from = slot * count;
    std::copy_n(one.k.begin() + from, count, all.k.begin() + from);
    std::copy_n(one.v.begin() + from, count, all.v.begin() + from);
    rows.push_back(row);
  }
  const FloatRows q = random_rows(random, sessions, 4 * 64, -0.3, 0.3);
  for (const int parts : all_parts) {
    const FloatRows got = kernel.attention(rows, q, all, parts);
    for (int r = 0; r < sessions; ++r)
      boost::ut::expect(same_bits(got[r], attention_alone(kernel, histories[r], rows[r], q[r]))) << "session" << r;
  }
}

}  // namespace lapidary::test
