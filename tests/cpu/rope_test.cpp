// rope_angles and qkv_norm_rope for the head layouts of the published models.
#include <boost/ut.hpp>

#include <cmath>
#include <optional>

#include "cpu/kernel_rows.hpp"
#include "reference/rope.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;

// theta^(-2i/D), zero from `rotated` on.
std::vector<float> frequencies(int head_dim, double theta, int rotated) {
  std::vector<float> all;
  for (int i = 0; i < head_dim / 2; ++i)
    all.push_back(i < rotated ? static_cast<float>(std::pow(theta, -2.0 * i / head_dim)) : 0.0f);
  return all;
}

FloatRows rope_angles(const std::vector<graph::Row>& rows, const std::vector<float>& f, int parts = 1) {
  RowBuffer out(static_cast<int>(rows.size()), static_cast<int>(2 * f.size()));
  in_parts(parts, [&](cpu::Part part) { cpu::rope_angles(rows, f, out.out(), part); });
  return out.rows();
}

graph::Row row_at(int position, int slot = 0) {
  return {.slot = slot, .position = position, .token = 9, .block_end = position};
}

suite<"rope_angles"> angles_suite = [] {
  "rope_angles are the cosines and sines of float32 angles, up to the longest context"_test = [] {
    for (const auto& f :
         {frequencies(256, 1e4, 128), frequencies(512, 1e6, 64), frequencies(64, 1e4, 32), frequencies(32, 1e6, 4)})
      for (const int position : {0, 1, 2, 63, 64, 1000, 65535, 100003, 131071, 262143}) {
        const auto expected = reference::rope_angles(position, f);
        const std::vector<double> allowed(expected.size(), 1.2e-7);  // two roundings of a value up to one
        expect(worst_error(rope_angles({row_at(position)}, f).front(), expected, allowed) <= 1.0_d)
            << "position" << position;
      }
  };

  "rope_angles gives a row the same bits among any others"_test = [] {
    Random random(1);
    const auto f = frequencies(512, 1e6, 64);
    std::vector<graph::Row> rows;
    for (int r = 0; r < 67; ++r) rows.push_back(row_at(random.below(262144)));
    expect_rows_independent(random, 67, [&](const std::vector<int>& numbers, int parts) {
      return rope_angles(gather(rows, numbers), f, parts);
    });
  };
};

constexpr int kSlots = 3, kCapacity = 128;

// K/V memory of one layer, all of it kUntouched.
struct Cache {
  std::vector<float> k, v;
  link::KvCache view;

  Cache(int kv_heads, int head_dim) {
    const std::size_t stride = static_cast<std::size_t>(kv_heads) * kCapacity * head_dim + 5;
    k.assign(stride * kSlots, kUntouched);
    v = k;
    view = {k.data(), v.data(), kv_heads, head_dim, kCapacity, stride};
  }
};

struct Layer {
  cpu::HeadShape shape;
  bool owns_kv, values_are_keys;
  std::vector<float> q_norm, k_norm;

  Layer(Random& random, cpu::HeadShape s, bool owns, bool same)
      : shape(s),
        owns_kv(owns),
        values_are_keys(same),
        q_norm(random.floats(s.head_dim, -2, 2)),
        k_norm(random.floats(s.head_dim, -2, 2)) {}

  int input_width() const {
    return (shape.heads + (owns_kv ? shape.kv_heads * (values_are_keys ? 1 : 2) : 0)) * shape.head_dim;
  }
};

// Returns q | K | V of each row, and checks that nothing else in the cache was written.
FloatRows qkv_norm_rope(const std::vector<graph::Row>& rows, const FloatRows& qkv, const FloatRows& angles,
                        const Layer& layer, int parts = 1) {
  const auto& shape = layer.shape;
  const RowBuffer in(qkv), angle_rows(angles);
  RowBuffer q(static_cast<int>(rows.size()), shape.heads * shape.head_dim);
  std::optional<Cache> cache;
  if (layer.owns_kv) cache.emplace(shape.kv_heads, shape.head_dim);
  in_parts(parts, [&](cpu::Part part) {
    cpu::qkv_norm_rope(rows, in.in(), angle_rows.in(), layer.q_norm.data(),
                       layer.owns_kv ? layer.k_norm.data() : nullptr, shape, layer.values_are_keys, kEpsilon,
                       cache ? &cache->view : nullptr, q.out(), part);
  });
  FloatRows all = q.rows();
  if (!cache) return all;
  for (std::vector<float>* memory : {&cache->k, &cache->v})
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (int head = 0; head < shape.kv_heads; ++head) {
        const auto at = memory->begin() + cache->view.index(rows[r].slot, head, rows[r].position);
        all[r].insert(all[r].end(), at, at + shape.head_dim);
        std::fill(at, at + shape.head_dim, kUntouched);
      }
  expect(std::all_of(cache->k.begin(), cache->k.end(), is_untouched) &&
         std::all_of(cache->v.begin(), cache->v.end(), is_untouched))
      << "K/V written where no row is";
  return all;
}

const std::vector<cpu::HeadShape> kHeadShapes = {{8, 1, 256},  {8, 1, 512},  {8, 2, 256},  {8, 2, 512},
                                                 {16, 8, 256}, {16, 1, 512}, {16, 2, 512}, {32, 16, 256},
                                                 {32, 4, 512}, {4, 2, 32},   {4, 1, 64},   {6, 3, 128}};

suite<"qkv_norm_rope"> qkv_suite = [] {
  "qkv_norm_rope is near its definition with own K/V, with values that are keys, and without K/V"_test = [] {
    Random random(2);
    for (const cpu::HeadShape& shape : kHeadShapes)
      for (const auto& [owns, same] : {std::pair{true, false}, std::pair{true, true}, std::pair{false, false}}) {
        const Layer layer(random, shape, owns, same);
        const std::size_t d = shape.head_dim, q_width = shape.heads * d, kv_width = shape.kv_heads * d;
        const auto f = frequencies(shape.head_dim, 1e4, shape.head_dim / 4);
        for (const int position : {0, 77, 4001}) {
          const FloatRows x = random_rows(random, 1, layer.input_width(), -3, 3);
          FloatRows angles(1);
          for (const double angle : reference::rope_angles(position, f)) angles[0].push_back(static_cast<float>(angle));
          const auto input = doubles(x[0]), angle = doubles(angles[0]);

          auto expected =
              reference::norm_rope(reference::slice(input, 0, q_width), doubles(layer.q_norm), angle, kEpsilon);
          if (owns) {
            const auto keys = reference::slice(input, q_width, kv_width);
            const auto values = same ? keys : reference::slice(input, q_width + kv_width, kv_width);
            for (const double value : reference::norm_rope(keys, doubles(layer.k_norm), angle, kEpsilon))
              expected.push_back(value);
            for (const double value : reference::norm_values(values, d, kEpsilon)) expected.push_back(value);
          }
          // A rotation mixes two normed values below 4 (|x| <= 3, |w| <= 2, rms near sqrt(3)): a few roundings of those.
          const std::vector<double> allowed(expected.size(), 4e-6);
          expect(worst_error(qkv_norm_rope({row_at(position, 1)}, x, angles, layer).front(), expected, allowed) <=
                 1.0_d)
              << shape.heads << "heads," << shape.kv_heads << "K/V heads of" << shape.head_dim << "owns" << owns
              << "same" << same;
        }
      }
  };

  "qkv_norm_rope gives a row the same bits among any others, in any session"_test = [] {
    Random random(3);
    for (const cpu::HeadShape& shape : {cpu::HeadShape{8, 2, 256}, cpu::HeadShape{4, 1, 512}, cpu::HeadShape{4, 2, 32}})
      for (const auto& [owns, same] : {std::pair{true, false}, std::pair{true, true}, std::pair{false, false}}) {
        const Layer layer(random, shape, owns, same);
        const FloatRows x = random_rows(random, 67, layer.input_width(), -3, 3);
        const FloatRows angles = random_rows(random, 67, shape.head_dim, -1, 1);
        std::vector<graph::Row> rows;
        for (int r = 0; r < 67; ++r) rows.push_back(row_at(500 + r, r % kSlots));  // past the end of the ring
        expect_rows_independent(random, 67, [&](const std::vector<int>& numbers, int parts) {
          return qkv_norm_rope(gather(rows, numbers), gather(x, numbers), gather(angles, numbers), layer, parts);
        });
      }
  };
};

}  // namespace
}  // namespace lapidary::test
