// Attention of the fast mode: near its definition, the same bits for a row in any company, blind to what it may not see.
#include <boost/ut.hpp>

#include "cpu/attention_bf16.hpp"
#include "cpu/kernel_rows.hpp"
#include "reference/attention.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;

constexpr std::uint16_t kNoNumber = 0x7fc0;
constexpr int kCapacity = 320;

struct Shape {
  cpu::HeadShape heads;
  int window;
};
// Sliding and full layers of E2B, E4B, 12B, 26B-A4B, 31B, pebble and the test models, and an odd number of heads.
const std::vector<Shape> kShapes = {{{8, 1, 256}, 100}, {{8, 1, 512}, 0},   {{8, 2, 256}, 130}, {{8, 2, 512}, 0},  {{16, 8, 256}, 70},
                                    {{16, 1, 512}, 0},  {{16, 2, 512}, 0},  {{32, 16, 256}, 64}, {{32, 4, 512}, 0}, {{4, 2, 64}, 128},
                                    {{4, 1, 128}, 0},   {{4, 2, 32}, 16},   {{3, 1, 64}, 0},     {{5, 1, 8}, 30}};

// Positions `first` to `last` of a text in a ring; all else is not even a number.
struct Cache {
  link::KvCacheBf16 view;
  std::vector<std::uint16_t> k, v;

  Cache(Random& random, cpu::HeadShape heads, int first, int last)
      : k(static_cast<std::size_t>(heads.kv_heads) * kCapacity * heads.head_dim, kNoNumber), v(k) {
    view = {k.data(), v.data(), heads.kv_heads, heads.head_dim, kCapacity, k.size()};
    for (int head = 0; head < heads.kv_heads; ++head)
      for (int t = std::max(first, last - kCapacity + 1); t <= last; ++t)
        for (int d = 0; d < heads.head_dim; ++d) {
          k[view.key_index(0, head, t, d)] = to_bf16(static_cast<float>(random.uniform(-0.3, 0.3)));
          v[view.value_index(0, head, t, d)] = to_bf16(static_cast<float>(random.uniform(-1, 1)));
        }
  }

  reference::Vector key(int head, int t) const { return row(k, [&](int d) { return view.key_index(0, head, t, d); }); }
  reference::Vector value(int head, int t) const { return row(v, [&](int d) { return view.value_index(0, head, t, d); }); }

 private:
  template <class Index>
  reference::Vector row(const std::vector<std::uint16_t>& from, Index index) const {
    reference::Vector all;
    for (int d = 0; d < view.head_dim; ++d) all.push_back(from_bf16(from[index(d)]));
    return all;
  }
};

FloatRows attend(const std::vector<int>& positions, const FloatRows& q, const Cache& cache, const Shape& shape, int parts) {
  std::vector<graph::Row> rows;
  for (const int position : positions) rows.push_back({0, position, 0, position});
  const RowBuffer in(q);
  RowBuffer out(static_cast<int>(rows.size()), shape.heads.heads * shape.heads.head_dim);
  in_parts(parts, [&](cpu::Part part) {
    cpu::attention_bf16(rows, in.in(), cache.view, shape.heads, shape.window, out.out(), part);
  });
  return out.rows();
}

// softmax(q . K) V in double, with the query as it is rounded
std::vector<double> expected(const float* q, int kv_head, int first, int last, const Cache& cache) {
  std::vector<double> scores, mixed(cache.view.head_dim, 0.0);
  double most = -INFINITY, sum = 0.0;
  for (int t = first; t <= last; ++t) {
    const auto key = cache.key(kv_head, t);
    double score = 0.0;
    for (int d = 0; d < cache.view.head_dim; ++d) score += from_bf16(to_bf16(q[d])) * key[d];
    scores.push_back(score);
    most = std::max(most, score);
  }
  for (int t = first; t <= last; ++t) {
    const double p = std::exp(scores[t - first] - most);
    const auto value = cache.value(kv_head, t);
    for (int d = 0; d < cache.view.head_dim; ++d) mixed[d] += p * value[d];
    sum += p;
  }
  for (double& x : mixed) x /= sum;
  return mixed;
}

const suite<"bf16 attention"> bf16_attention = [] {
  "bfloat16 is rounded to the nearest, ties to even"_test = [] {
    for (const auto& [x, bits] : {std::pair{1.0f, 0x3f80}, {1.00390625f, 0x3f80}, {1.01171875f, 0x3f82}, {1.0039065f, 0x3f81},
                                  {-2.5f, 0xc020}, {0.0f, 0}, {3.4e38f, 0x7f80}, {INFINITY, 0x7f80}})
      expect(to_bf16(x) == bits) << x;
    expect(std::isnan(from_bf16(to_bf16(NAN))));
    expect(from_bf16(0x3f82) == 1.015625f);
  };

  "every place of the cache is another one"_test = [] {
    const link::KvCacheBf16 view{nullptr, nullptr, 2, 24, 128, 2 * 128 * 24};
    std::vector<int> keys(2 * 2 * 128 * 24), values(keys.size());
    for (int slot = 0; slot < 2; ++slot)
      for (int head = 0; head < 2; ++head)
        for (int t = 128; t < 256; ++t)
          for (int d = 0; d < 24; ++d) {
            ++keys[view.key_index(slot, head, t, d)];
            ++values[view.value_index(slot, head, t, d)];
          }
    const bool same = keys == values;
    expect(std::ranges::count(keys, 1) == static_cast<std::ptrdiff_t>(keys.size()) && same);
  };

  for (const Shape& shape : kShapes)
    boost::ut::test("attention with " + std::to_string(shape.heads.heads) + "/" + std::to_string(shape.heads.kv_heads) + " heads of " +
                    std::to_string(shape.heads.head_dim) + " is near its definition") = [shape] {
      Random random(1);
      const int d = shape.heads.head_dim, each = shape.heads.heads / shape.heads.kv_heads;
      for (const int last : {0, 1, 7, 62, 63, 64, 130, 255, 600}) {
        const int first = shape.window ? std::max(0, last - shape.window + 1) : std::max(0, last - kCapacity + 64) / 64 * 64;
        if (!shape.window && first > 0) continue;  // a full layer keeps everything
        const Cache cache(random, shape.heads, first, last);
        const FloatRows q = random_rows(random, 1, shape.heads.heads * d);
        const FloatRows got = attend({last}, q, cache, shape, 1);
        std::vector<float> portable(q[0].size());
        for (int head = 0; head < shape.heads.heads; ++head) {
          const auto exact = expected(q[0].data() + head * d, head / each, first, last, cache);
          cpu::AttentionJob job{.heads = 1, .slot = 0, .kv_head = head / each, .first = first, .last = last};
          job.q[0] = q[0].data() + head * d;
          job.out[0] = portable.data() + head * d;
          cpu::portable_attention()(job, cache.view);
          double worst = 0.0;
          for (int i = 0; i < d; ++i)
            for (const float x : {got[0][head * d + i], portable[head * d + i]})
              worst = std::isnan(x) ? INFINITY : std::max(worst, std::abs(x - exact[i]));
          expect(worst < 0.004) << "position" << last << "head" << head << worst;  // probabilities have 8 bits
        }
      }
    };

  for (const Shape& shape : kShapes)
    boost::ut::test("attention with " + std::to_string(shape.heads.heads) + "/" + std::to_string(shape.heads.kv_heads) + " heads of " +
                    std::to_string(shape.heads.head_dim) + " gives a row the same bits among any others") = [shape] {
      Random random(2);
      const int row_count = 19, last = 230;
      const Cache cache(random, shape.heads, 0, last);
      const FloatRows q = random_rows(random, row_count, shape.heads.heads * shape.heads.head_dim);
      std::vector<int> positions;
      for (int r = 0; r < row_count; ++r) positions.push_back(r < 8 ? last - r : random.below(last));
      expect_rows_independent(random, row_count, [&](const std::vector<int>& numbers, int parts) {
        return attend(gather(positions, numbers), gather(q, numbers), cache, shape, parts);
      });
    };

  "keys and values are stored rounded, at their positions"_test = [] {
    Random random(3);
    const cpu::HeadShape heads{2, 2, 16};
    Cache cache(random, heads, 0, -1);
    const FloatRows qkv = random_rows(random, 3, 6 * 16), angles = random_rows(random, 3, 16), weights = random_rows(random, 2, 16);
    const std::vector<graph::Row> rows = {{0, 5, 0, 5}, {0, 320 + 6, 0, 0}, {0, 64, 0, 64}};
    std::vector<float> k(2 * kCapacity * 16), v(k.size());
    const link::KvCache plain{k.data(), v.data(), 2, 16, kCapacity, k.size()};
    const RowBuffer in(qkv), turns(angles);
    RowBuffer q(3, 32), q_plain(3, 32);
    cpu::qkv_norm_rope_bf16(rows, in.in(), turns.in(), weights[0].data(), weights[1].data(), heads, false, kEpsilon, &cache.view,
                            q.out(), {});
    cpu::qkv_norm_rope(rows, in.in(), turns.in(), weights[0].data(), weights[1].data(), heads, false, kEpsilon, &plain,
                       q_plain.out(), {});
    const bool same_queries = q.rows() == q_plain.rows();
    expect(same_queries);
    for (const graph::Row& row : rows)
      for (int head = 0; head < 2; ++head)
        for (int d = 0; d < 16; ++d) {
          expect(cache.k[cache.view.key_index(0, head, row.position, d)] == to_bf16(k[plain.index(0, head, row.position) + d]));
          expect(cache.v[cache.view.value_index(0, head, row.position, d)] == to_bf16(v[plain.index(0, head, row.position) + d]));
        }
    expect(std::ranges::count(cache.k, kNoNumber) == static_cast<std::ptrdiff_t>(cache.k.size() - 3 * 32));
  };
};

}  // namespace
}  // namespace lapidary::test
