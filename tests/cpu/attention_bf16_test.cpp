// Attention of the fast mode, in every way this processor can: near its definition, the same bits for a row in any company,
// blind to what it may not see.
#include <bit>
#include <boost/ut.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "cpu/attention_bf16.hpp"
#include "cpu/instructions.hpp"
#include "cpu/kernel_rows.hpp"
#include "numeric/math.hpp"
#include "reference/attention.hpp"
#include "support/emulated.hpp"

namespace lapidary::test::attention_bf16_test {
namespace {

using namespace boost::ut;

constexpr std::uint16_t kNoNumber = 0x7fc0;
constexpr int kCapacity = 320;

using Way = cpu::AttentionKernels;

std::vector<Way> all_ways() {
  std::vector<Way> all;
  for (const cpu::Instructions& instructions : cpu::all_instructions())
    if (instructions.here && std::ranges::none_of(all, [&](const Way& way) { return way.attend == instructions.attention->attend; }))
      all.push_back(*instructions.attention);
  if (is_emulated()) return {all.back()};
  return all;
}

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

  Cache(Random& random, cpu::HeadShape heads, int first, int last, int capacity = kCapacity)
      : k(static_cast<std::size_t>(heads.kv_heads) * capacity * heads.head_dim, kNoNumber), v(k) {
    view = {k.data(), v.data(), heads.kv_heads, heads.head_dim, capacity, k.size()};
    for (int head = 0; head < heads.kv_heads; ++head)
      for (int t = std::max(first, last - capacity + 1); t <= last; ++t)
        for (int d = 0; d < heads.head_dim; ++d) {
          k[view.key_index(0, head, t, d)] = numeric::to_bf16(static_cast<float>(random.uniform(-0.3, 0.3)));
          v[view.value_index(0, head, t, d)] = numeric::to_bf16(static_cast<float>(random.uniform(-1, 1)));
        }
  }

  reference::Vector key(int head, int t) const { return row(k, [&](int d) { return view.key_index(0, head, t, d); }); }
  reference::Vector value(int head, int t) const { return row(v, [&](int d) { return view.value_index(0, head, t, d); }); }

 private:
  template <class Index>
  reference::Vector row(const std::vector<std::uint16_t>& from, Index index) const {
    reference::Vector all;
    for (int d = 0; d < view.head_dim; ++d) all.push_back(numeric::from_bf16(from[index(d)]));
    return all;
  }
};

FloatRows attend(const Way& way, const std::vector<int>& positions, const FloatRows& q, const Cache& cache,
                 const Shape& shape, int parts = 1) {
  std::vector<graph::Row> rows;
  for (const int position : positions) rows.push_back({0, position, 0, position});
  const RowBuffer in(q);
  RowBuffer out(static_cast<int>(rows.size()), shape.heads.heads * shape.heads.head_dim);
  in_parts(parts, [&](cpu::Part part) {
    cpu::attention_bf16(rows, in.in(), cache.view, shape.heads, shape.window, out.out(), part, way);
  });
  return out.rows();
}

// One row, by all threads together. Their room holds rubbish.
FloatRows attend_together(const cpu::AttendTogether& together, int position, const FloatRows& q, const Cache& cache,
                          const Shape& shape, int parts) {
  const std::vector<graph::Row> rows = {{0, position, 0, position}};
  const RowBuffer in(q);
  RowBuffer out(1, shape.heads.heads * shape.heads.head_dim);
  const auto room = std::make_unique<cpu::AttentionRoom>();
  std::memset(room.get(), 0xff, sizeof *room);
  const cpu::Range all{0, cpu::pairs_of_heads(rows, shape.heads)};
  cpu::for_each_job(rows, in.in(), shape.heads, shape.window, out.out(), all, [&](const cpu::AttentionJob& job) {
    std::vector<cpu::AttentionState> states(parts);
    cpu::for_each_chunk(job, [&](cpu::Range chunk) {
      for (const auto share : {together.score, together.weigh, together.mix})
        in_parts(parts, [&](cpu::Part part) { share(job, cache.view, chunk, states[part.index], *room, part); });
    });
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
    for (int d = 0; d < cache.view.head_dim; ++d) score += numeric::from_bf16(numeric::to_bf16(q[d])) * key[d];
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

std::string title(const Way& way, const Shape& shape) {
  const cpu::HeadShape& heads = shape.heads;
  return std::string(way.name) + " attention with " + std::to_string(heads.heads) + "/" + std::to_string(heads.kv_heads) + " heads of " +
         std::to_string(heads.head_dim);
}

void test_near(const Way& way, const Shape& shape) {
  boost::ut::test(title(way, shape) + " is near its definition") = [way, shape] {
    Random random(1);
    const int d = shape.heads.head_dim, each = shape.heads.heads / shape.heads.kv_heads;
    for (const int last : {0, 1, 7, 62, 63, 64, 130, 255, 600}) {
      const int first = shape.window ? std::max(0, last - shape.window + 1) : std::max(0, last - kCapacity + 64) / 64 * 64;
      if (!shape.window && first > 0) continue;  // a full layer keeps everything
      const Cache cache(random, shape.heads, first, last);
      const FloatRows q = random_rows(random, 1, shape.heads.heads * d);
      const FloatRows got = attend(way, {last}, q, cache, shape);
      for (int head = 0; head < shape.heads.heads; ++head) {
        const auto exact = expected(q[0].data() + head * d, head / each, first, last, cache);
        double worst = 0.0;
        for (int i = 0; i < d; ++i) {
          const float x = got[0][head * d + i];
          worst = std::isnan(x) ? INFINITY : std::max(worst, std::abs(x - exact[i]));
        }
        expect(worst < 0.004) << "position" << last << "head" << head << worst;  // probabilities have 8 bits
      }
    }
  };
}

void test_together(const Way& way, const Shape& shape) {
  boost::ut::test(title(way, shape) + " has the same bits by all threads together") = [way, shape] {
    Random random(3);
    constexpr int kLong = 4608;
    for (const int last : {0, 63, 64, 300, 2047, 2048, 4500}) {
      const Cache cache(random, shape.heads, 0, last, kLong);
      const FloatRows q = random_rows(random, 1, shape.heads.heads * shape.heads.head_dim);
      const FloatRows alone = attend(way, {last}, q, cache, shape);
      for (const int parts : {1, 2, 3, 7})
        expect(same_bits(attend_together(*way.together, last, q, cache, shape, parts)[0], alone[0]))
            << "position" << last << "parts" << parts;
    }
  };
}

void test_independent(const Way& way, const Shape& shape) {
  boost::ut::test(title(way, shape) + " gives a row the same bits among any others") = [way, shape] {
    Random random(2);
    const int row_count = 19, last = 230;
    const Cache cache(random, shape.heads, 0, last);
    const FloatRows q = random_rows(random, row_count, shape.heads.heads * shape.heads.head_dim);
    std::vector<int> positions;
    for (int r = 0; r < row_count; ++r) positions.push_back(r < 8 ? last - r : random.below(last));
    expect_rows_independent(random, row_count, [&](const std::vector<int>& numbers, int parts) {
      return attend(way, gather(positions, numbers), gather(q, numbers), cache, shape, parts);
    });
  };
}

// Rows are heads here: a job takes any of them, in any order.
void test_heads(const Way& way) {
  boost::ut::test(std::string(way.name) + " attention gives a head the same bits among any others") = [way] {
    Random random(3);
    const int count = cpu::AttentionJob::kMaxHeads, d = 64;
    const Cache cache(random, {count, 1, d}, 0, 150);
    const FloatRows q = random_rows(random, count, d);
    expect_rows_independent(random, count, [&](const std::vector<int>& numbers, int) {
      FloatRows out(numbers.size(), std::vector<float>(d));
      cpu::AttentionJob job{.heads = static_cast<int>(numbers.size()), .slot = 0, .kv_head = 0, .first = 21, .last = 150};
      for (int head = 0; head < job.heads; ++head) {
        job.q[head] = q[numbers[head]].data();
        job.out[head] = out[head].data();
      }
      way.attend({&job, 1}, cache.view);
      return out;
    });
  };
}

void test_rounding(const Way& way) {
  boost::ut::test(std::string(way.name) + " attention rounds queries") = [way] {
    Random random(4);
    const Shape shape{{2, 1, 64}, 0};
    const Cache cache(random, shape.heads, 0, 5);
    FloatRows q = random_rows(random, 1, 2 * 64);
    for (int i = 0; i < 64; ++i) q[0][i] = 1.0f + static_cast<float>(2 * i + 1) / 256.0f;  // ties
    FloatRows rounded = q;
    for (float& x : rounded[0]) x = numeric::from_bf16(numeric::to_bf16(x));
    expect(same_bits(attend(way, {5}, q, cache, shape)[0], attend(way, {5}, rounded, cache, shape)[0]));
  };

  // Probabilities 1 and p of the values 0 and 1 give p / (1 + p), the one above rounded.
  boost::ut::test(std::string(way.name) + " attention rounds probabilities") = [way] {
    Random random(5);
    const Shape shape{{1, 1, 8}, 0};
    Cache cache(random, shape.heads, 0, -1);
    FloatRows q = {std::vector<float>(8, 0.0f)};
    q[0][3] = 1.0f;
    for (const float score : {-0.25f, -0.5f, -0.75f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f, -8.0f}) {
      for (int t = 0; t < 2; ++t)
        for (int d = 0; d < 8; ++d) {
          cache.k[cache.view.key_index(0, 0, t, d)] = numeric::to_bf16(t == 1 && d == 3 ? score : 0.0f);
          cache.v[cache.view.value_index(0, 0, t, d)] = numeric::to_bf16(static_cast<float>(t));
        }
      const double p = std::exp(static_cast<double>(score)), exact = numeric::from_bf16(numeric::to_bf16(static_cast<float>(p))) / (1.0 + p);
      const FloatRows got = attend(way, {1}, q, cache, shape);
      for (const float x : got[0]) expect(std::abs(x - exact) < 1e-6 * exact) << score << x << exact;
    }
  };
}

void test_no_number(const Way& way) {
  boost::ut::test(std::string(way.name) + " attention keeps to its head what is not a number") = [way] {
    Random random(6);
    const Shape shape{{2, 1, 16}, 0};
    const Cache cache(random, shape.heads, 0, 70);
    FloatRows q = random_rows(random, 1, 2 * 16);
    const std::vector<float> good = attend(way, {70}, q, cache, shape)[0];
    q[0][9] = std::bit_cast<float>(0x7fffffff);
    const std::vector<float> bad = attend(way, {70}, q, cache, shape)[0];
    expect(std::all_of(bad.begin(), bad.begin() + 16, [](float x) { return std::isnan(x); }));
    expect(std::equal(bad.begin() + 16, bad.end(), good.begin() + 16));
  };
}

const suite<"bf16 attention"> bf16_attention = [] {
  "bfloat16 is rounded to the nearest, ties to even"_test = [] {
    for (const auto& [x, bits] : {std::pair{1.0f, 0x3f80}, {1.00390625f, 0x3f80}, {1.01171875f, 0x3f82}, {1.0039065f, 0x3f81},
                                  {-2.5f, 0xc020}, {0.0f, 0}, {3.4e38f, 0x7f80}, {INFINITY, 0x7f80}})
      expect(numeric::to_bf16(x) == bits) << x;
    expect(std::isnan(numeric::from_bf16(numeric::to_bf16(NAN))));
    expect(numeric::from_bf16(0x3f82) == 1.015625f);
  };

  "exponentials of what is not above 0 have the same bits, down to normal numbers"_test = [] {
    const auto bits_of = [](float x) { return std::bit_cast<std::uint32_t>(x); };
    for (float x = 0.0f; x > -87.0f; x -= 0.00390625f * 0.7f) expect(bits_of(numeric::exp_negative(x)) == bits_of(numeric::exp(x))) << x;
    for (const float x : {-88.0f, -100.0f, -1e30f, -std::numeric_limits<float>::infinity()}) expect(bits_of(numeric::exp_negative(x)) == 0u) << x;
    expect(std::isnan(numeric::exp_negative(std::numeric_limits<float>::quiet_NaN())));
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

  for (const Way& way : all_ways()) {
    for (const Shape& shape : kShapes) {
      if (!is_emulated() || shape.heads.heads * shape.heads.head_dim <= 4096) test_near(way, shape);
      if (!is_emulated() || shape.heads.head_dim <= 64) test_independent(way, shape);
    }
    if (way.together)
      for (const Shape& shape : {Shape{{8, 1, 64}, 0}, Shape{{8, 1, 64}, 512}, Shape{{16, 1, 32}, 0}, Shape{{3, 1, 64}, 300},
                                 Shape{{8, 2, 128}, 0}})
        test_together(way, shape);
    test_heads(way);
    test_rounding(way);
    test_no_number(way);
  }

  std::vector<Way> with_fma;  // those of vectors of floats
  for (const Way& way : all_ways())
    if (way.name == std::string("avx2") || way.name == std::string("avx512") || (numeric::kFusedRoundsOnce && way.name == std::string("vectors")))
      with_fma.push_back(way);
  for (std::size_t i = 1; i < with_fma.size(); ++i)
    boost::ut::test(std::string(with_fma[i].name) + " attention gives the bits of " + with_fma[0].name) = [=] {
      Random random(7);
      for (const Shape& shape : kShapes) {
        const Cache cache(random, shape.heads, 0, 230);
        const FloatRows q = random_rows(random, 3, shape.heads.heads * shape.heads.head_dim);
        const FloatRows one = attend(with_fma[i], {230, 64, 7}, q, cache, shape), other = attend(with_fma[0], {230, 64, 7}, q, cache, shape);
        for (const int r : {0, 1, 2}) expect(same_bits(one[r], other[r])) << title(with_fma[i], shape) << "row" << r;
      }
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
          expect(cache.k[cache.view.key_index(0, head, row.position, d)] == numeric::to_bf16(k[plain.index(0, head, row.position) + d]));
          expect(cache.v[cache.view.value_index(0, head, row.position, d)] == numeric::to_bf16(v[plain.index(0, head, row.position) + d]));
        }
    expect(std::ranges::count(cache.k, kNoNumber) == static_cast<std::ptrdiff_t>(cache.k.size() - 3 * 32));
  };
};

}  // namespace
}  // namespace lapidary::test::attention_bf16_test
