// attention on the CPU.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "support/attention_cases.hpp"

namespace lapidary::test::attention_test {
namespace {

using namespace boost::ut;

FloatRows attention(const std::vector<graph::Row>& rows, const FloatRows& q, const KvMemory& memory, int parts) {
  const auto& [heads, kv_heads, head_dim] = memory.layout.shape;
  // It only reads them.
  float *k = const_cast<float*>(memory.k.data()), *v = const_cast<float*>(memory.v.data());
  const link::KvCache cache{k, v, kv_heads, head_dim, memory.capacity, memory.slot_elements};
  const RowBuffer in(q);
  RowBuffer out(count_of(rows), heads * head_dim);
  in_parts(parts, [&](cpu::Part part) {
    cpu::attention(rows, in.in(), cache, {heads, kv_heads, head_dim}, memory.layout.window, out.out(), part);
  });
  return out.rows();
}

const AttentionKernel kKernel{attention, 3};

const std::vector<AttentionLayout> kLayouts = {
    {{8, 1, 256}, 512},    {{8, 1, 512}, 0},                      // E2B
    {{8, 2, 256}, 512},    {{8, 2, 512}, 0},                      // E4B
    {{16, 8, 256}, 1024},  {{16, 1, 512}, 0}, {{16, 2, 512}, 0},  // 12B and 26B-A4B
    {{32, 16, 256}, 1024}, {{32, 4, 512}, 0},                     // 31B
    {{4, 2, 32}, 16},      {{4, 1, 64}, 100}, {{6, 3, 128}, 64},  // small test models
};

suite<"attention"> attention_suite = [] {
  test_attention(kKernel, kLayouts);
  test_attention_of_blocks(kKernel, {false});

  "attention gives a row the same bits among any others, around tile and window borders"_test = [] {
    for (const AttentionLayout& layout :
         {AttentionLayout{{8, 2, 256}, 512}, {{8, 1, 512}, 0}, {{4, 2, 32}, 16}, {{6, 3, 128}, 64}})
      expect_rows_around_borders(kKernel, layout, {4, 64, 128, 512, 516, 576, 690}, 4, all_company(56));
  };

  "attention gives a row of an image the same bits as one call or row by row"_test = [] {
    expect_rows_of_image(kKernel, 67);
  };

  "a sliding row has the same bits wherever the ring has wrapped, with NaN all around its window"_test = [] {
    expect_same_in_any_ring(kKernel, {{{8, 2, 256}, 512}, {{4, 2, 32}, 16}, {{6, 3, 128}, 64}, {{4, 1, 64}, 100}},
                            {0, 1, 3});
  };

  "rejected rows left behind in the cache do not matter"_test = [] {
    expect_rejected_rows_do_not_matter(kKernel, {{8, 2, 256}, 0});
  };

  "rows of several sessions in one call do not see each other"_test = [] { expect_sessions_apart(kKernel, {1, 2, 3}); };
};

}  // namespace
}  // namespace lapidary::test::attention_test
