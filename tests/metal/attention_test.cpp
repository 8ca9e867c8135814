// attention on the device, also however its positions are split.
#include <boost/ut.hpp>

#include "metal/stage.hpp"
#include "support/attention_cases.hpp"

namespace lapidary::test::attention_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using graph::Op;
using metal::kKvRange;

constexpr int kSlotGap = 8;

FloatRows attention(const std::vector<graph::Row>& rows, const FloatRows& q, const KvMemory& memory, int kv_ranges,
                    metal::NumericClass numeric = metal::NumericClass::round) {
  const auto& [heads, kv_heads, head_dim] = memory.layout.shape;
  const graph::Dims dims{.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .window = memory.layout.window};
  Stage stage(Op::attention, dims, count_of(rows), numeric);
  stage.row_table(rows);
  stage.in(0, q);
  stage.kv(memory.k, memory.v, memory.capacity, memory.slot_elements, memory.layout.bf16);
  stage.out(0, heads * head_dim);
  stage.bound().kv_ranges = kv_ranges;
  if (const std::size_t bytes = metal::attention_scratch_bytes(dims, count_of(rows), kv_ranges))
    stage.bound().scratch = stage.hold(std::vector<float>(bytes / sizeof(float), kUntouched));
  stage.play();
  return stage.floats(0);
}

AttentionKernel kernel_of(int kv_ranges) {
  return {[=](const std::vector<graph::Row>& rows, const FloatRows& q, const KvMemory& memory, int) {
            return attention(rows, q, memory, kv_ranges);
          },
          kSlotGap};
}

// E2B, E4B, 12B, 26B-A4B and 31B, some with fewer heads in the same groups, then small test models and odd sizes.
const std::vector<AttentionLayout> kLayouts = {
    {{8, 1, 256}, 512, true}, {{8, 1, 512}, 0, true},  {{8, 2, 256}, 512}, {{8, 2, 512}, 0},   {{4, 2, 256}, 1024, true},
    {{16, 1, 512}, 0, true},  {{16, 2, 512}, 0},       {{4, 2, 32}, 16},   {{4, 2, 32}, 16, true}, {{4, 1, 64}, 100},
    {{6, 3, 128}, 64, true},  {{3, 1, 96}, 80},        {{2, 2, 160}, 0},   {{2, 1, 384}, 70, true},
};

suite<"attention on the device"> attention_suite = [] {
  static const AttentionKernel kernel = kernel_of(1);
  test_attention(kernel, kLayouts);
  test_attention_of_blocks(kernel, {false, true});

  for (const AttentionLayout& layout : {AttentionLayout{{8, 2, 256}, 512, true}, {{8, 1, 512}, 0, true}, {{4, 2, 32}, 16},
                                        {{6, 3, 128}, 64}, {{16, 4, 64}, 0, true}})
    test("attention of " + label(layout) + " gives a row the same bits among any others, around borders") = [layout] {
      expect_rows_around_borders(kernel, layout, {4, 64, 512, 576}, 2, {16, {2, 3, 4, 5, 6, 7, 8, 16}});
    };

  "attention gives a row of an image the same bits as one call or row by row"_test = [] {
    expect_rows_of_image(kernel, 17);
  };

  "a sliding row has the same bits wherever the ring has wrapped, with NaN all around its window"_test = [] {
    expect_same_in_any_ring(
        kernel, {{{2, 1, 256}, 512, true}, {{4, 2, 32}, 16}, {{6, 3, 128}, 64, true}, {{4, 1, 64}, 100}}, {0, 3});
  };

  "rejected rows left behind in the cache do not matter"_test = [] {
    expect_rejected_rows_do_not_matter(kernel, {{4, 2, 256}, 0, true});
  };

  "rows of several sessions in one call do not see each other"_test = [] { expect_sessions_apart(kernel, {1}); };

  "the rows of the output window find their positions in the row table"_test = [] {
    Random random(10);
    const AttentionLayout layout{{2, 1, 64}, 0};
    const History history(random, layout, 100);
    std::vector<graph::Row> rows;
    for (int p = 60; p < 66; ++p) rows.push_back(row_at(p));
    const FloatRows q = random_rows(random, 6, 2 * 64, -0.3, 0.3);
    const KvMemory memory(history, kSlotGap, 128, 0, 66, 0);
    Stage stage(Op::attention, {.heads = 2, .kv_heads = 1, .head_dim = 64}, 4);
    stage.row_table(rows);
    stage.in(0, q);
    stage.kv(memory.k, memory.v, memory.capacity, memory.slot_elements, false);
    stage.out(0, 2 * 64);
    stage.params().rows = metal::layout::kOutputRows;
    stage.params().in[0].windowed = 1;
    stage.run().row_count = 6;
    stage.run().first_output = 3;
    stage.run().output_count = 3;
    stage.play();
    const FloatRows got = stage.floats(0);
    for (int r = 0; r < 3; ++r)
      expect(same_bits(got[r], attention_alone(kernel, history, rows[3 + r], q[3 + r]))) << "row" << r;
    expect(std::all_of(got[3].begin(), got[3].end(), is_untouched));
  };
};

suite<"metal attention over long contexts"> ranges_suite = [] {
  for (const AttentionLayout& layout : {AttentionLayout{{4, 2, 64}, 0}, {{2, 1, 512}, 0, true}})
    test("attention of " + label(layout) + " has the same bits however its positions are split") = [layout] {
      Random random(11);
      const History history(random, layout, 3 * kKvRange + 100);
      for (const int position : {5, kKvRange - 1, kKvRange, kKvRange + 70, 3 * kKvRange, 3 * kKvRange + 99}) {
        const auto q = random_query(random, layout);
        const auto expected = attention_alone(kernel_of(1), history, row_at(position), q);
        for (const int ranges : {2, 4, 8})
          if (position < ranges * kKvRange)
            expect(same_bits(attention_alone(kernel_of(ranges), history, row_at(position), q), expected))
                << "position" << position << "in" << ranges;
      }
      expect_attention(kernel_of(4), history, row_at(history.positions - 1), random_query(random, layout));
    };

  "rows of a round beyond a range have the same bits among any others, and as a prompt the same in one piece"_test = [] {
    Random random(12);
    const AttentionLayout layout{{4, 1, 32}, 0, true};
    const History history(random, layout, 2 * kKvRange);
    const KvMemory memory(history, kSlotGap, 2 * kKvRange, 0, history.positions, 0);
    std::vector<graph::Row> rows;
    for (int r = 0; r < 8; ++r) rows.push_back(row_at(kKvRange - 4 + r));
    const FloatRows q = random_rows(random, 8, 4 * 32, -0.3, 0.3);
    expect_rows_independent(random, 8, [&](const std::vector<int>& numbers, int parts) {
      return attention(gather(rows, numbers), gather(q, numbers), memory, 1 << (parts - 1) << 1);
    });
    const FloatRows prompt = attention(rows, q, memory, 2, metal::NumericClass::prompt);
    const FloatRows round = attention(rows, q, memory, 2);
    for (int r = 0; r < 8; ++r) expect(same_bits(prompt[r], round[r])) << "row" << r;
  };

  "a context that begins late has the same bits however its positions are split"_test = [] {
    Random random(14);
    const AttentionLayout layout{{4, 2, 16}, 0, true};
    const History history(random, layout, 3 * kKvRange + 10);
    for (const int begin : {1, kKvRange - 1, kKvRange, kKvRange + 70, 3 * kKvRange}) {
      const graph::Row row = row_from(begin, history.positions - 1, history.positions - 1);
      const auto q = random_query(random, layout);
      expect_attention(kernel_of(4), history, row, q);
      expect(same_bits(attention_alone(kernel_of(4), history, row, q), attention_alone(kernel_of(1), history, row, q))) << "from" << begin;
    }
  };

  "a window is never split"_test = [] {
    Random random(13);
    const AttentionLayout layout{{4, 2, 32}, 100};
    const History history(random, layout, kKvRange + 80);
    const auto q = random_query(random, layout);
    expect_attention(kernel_of(4), history, row_at(kKvRange + 50), q);
    expect(eq(metal::attention_scratch_bytes({.heads = 4, .head_dim = 32, .window = 100}, 8, 4), 0_u));
  };
};

}  // namespace
}  // namespace lapidary::test::attention_test
