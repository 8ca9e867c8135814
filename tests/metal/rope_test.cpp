// rope_angles and qkv_norm_rope on the device, for the head layouts of the published models.
#include <boost/ut.hpp>

#include <cmath>
#include <span>

#include "metal/stage.hpp"
#include "reference/rope.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using graph::Op;

// theta^(-2i/D), zero from `rotated` on.
std::vector<float> frequencies(int head_dim, double theta, int rotated) {
  std::vector<float> all;
  for (int i = 0; i < head_dim / 2; ++i)
    all.push_back(i < rotated ? static_cast<float>(std::pow(theta, -2.0 * i / head_dim)) : 0.0f);
  return all;
}

graph::Row row_at(int position, int slot = 0) {
  return {.slot = slot, .position = position, .token = 9, .block_end = position};
}

FloatRows rope_angles(const std::vector<graph::Row>& rows, const std::vector<float>& f) {
  const int head_dim = static_cast<int>(2 * f.size());
  Stage stage(Op::rope_angles, {.n = {head_dim}, .head_dim = head_dim}, static_cast<int>(rows.size()));
  stage.row_table(rows);
  stage.constants(f);
  stage.out(0, head_dim);
  stage.play();
  return stage.floats(0);
}

suite<"metal rope_angles"> angles_suite = [] {
  "rope_angles are the cosines and sines of float32 angles, up to the longest context"_test = [] {
    Random random(1);
    std::vector<graph::Row> rows;
    for (const int position : {0, 1, 2, 3, 11, 22, 63, 64, 333, 355, 710, 1000, 65535, 100003, 131071, 131072, 262143})
      rows.push_back(row_at(position));
    for (int r = 0; r < 300; ++r) rows.push_back(row_at(random.below(262144)));
    for (const auto& f :
         {frequencies(256, 1e4, 128), frequencies(512, 1e6, 64), frequencies(64, 1e4, 32), frequencies(32, 1e6, 4)}) {
      const FloatRows got = rope_angles(rows, f);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto expected = reference::rope_angles(rows[r].position, f);
        const std::vector<double> allowed(expected.size(), 1.2e-7);  // two roundings of a value up to one
        expect(worst_error(got[r], expected, allowed) <= 1.0_d) << "position" << rows[r].position;
      }
    }
  };

  "rope_angles gives a row the same bits among any others"_test = [] {
    Random random(2);
    const auto f = frequencies(512, 1e6, 64);
    std::vector<graph::Row> rows;
    for (int r = 0; r < 17; ++r) rows.push_back(row_at(random.below(262144)));
    expect_rows_independent(random, 17, [&](const std::vector<int>& numbers, int) {
      return rope_angles(gather(rows, numbers), f);
    });
  };
};

constexpr int kSlots = 3, kCapacity = 128;

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

graph::Dims dims_of(const Layer& layer) {
  return {.heads = layer.shape.heads, .kv_heads = layer.shape.kv_heads, .head_dim = layer.shape.head_dim,
          .epsilon = kEpsilon, .owns_kv = layer.owns_kv, .values_are_keys = layer.values_are_keys};
}

// All but the row table. K/V is NaN before.
void set_up(Stage& stage, const Layer& layer, const FloatRows& qkv, const FloatRows& angles, bool bf16) {
  const auto& shape = layer.shape;
  stage.in(0, qkv);
  stage.in(1, angles);
  stage.vector(0, layer.q_norm);
  stage.out(0, shape.heads * shape.head_dim);
  if (!layer.owns_kv) return;
  stage.vector(1, layer.k_norm);
  const std::size_t slot_elements = static_cast<std::size_t>(shape.kv_heads * kCapacity * shape.head_dim) + 8;
  const std::vector<float> empty(slot_elements * kSlots, kUntouched);
  stage.kv(empty, empty, kCapacity, slot_elements, bf16);
}

// q | K | V of each row; nothing else in the cache may have been written.
FloatRows results(const Stage& stage, const Layer& layer, std::span<const graph::Row> rows) {
  FloatRows all = stage.floats(0);
  if (!layer.owns_kv) return all;
  const auto& shape = layer.shape;
  for (std::vector<float> memory : {stage.keys(), stage.values()}) {
    const std::size_t slot_elements = memory.size() / kSlots;
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (int head = 0; head < shape.kv_heads; ++head) {
        const int ring = head * kCapacity + rows[r].position % kCapacity;
        const auto at = memory.begin() + static_cast<std::ptrdiff_t>(slot_elements * rows[r].slot) + ring * shape.head_dim;
        all[r].insert(all[r].end(), at, at + shape.head_dim);
        std::fill(at, at + shape.head_dim, NAN);
      }
    expect(std::ranges::all_of(memory, [](float x) { return std::isnan(x); })) << "K/V written where no row is";
  }
  return all;
}

FloatRows qkv_norm_rope(const std::vector<graph::Row>& rows, const FloatRows& qkv, const FloatRows& angles,
                        const Layer& layer, bool bf16 = false) {
  Stage stage(Op::qkv_norm_rope, dims_of(layer), static_cast<int>(rows.size()));
  set_up(stage, layer, qkv, angles, bf16);
  stage.row_table(rows);
  stage.play();
  return results(stage, layer, rows);
}

const std::vector<cpu::HeadShape> kHeadShapes = {{8, 1, 256},  {8, 1, 512},  {8, 2, 256},  {8, 2, 512},
                                                 {16, 8, 256}, {16, 1, 512}, {16, 2, 512}, {32, 16, 256},
                                                 {32, 4, 512}, {4, 2, 32},   {4, 1, 64},   {2, 1, 96}, {6, 3, 128}};

constexpr std::pair<bool, bool> kKinds[] = {{true, false}, {true, true}, {false, false}};  // owns K/V, values are keys

suite<"metal qkv_norm_rope"> qkv_suite = [] {
  "qkv_norm_rope is near its definition with own K/V, with values that are keys, and without K/V"_test = [] {
    Random random(3);
    for (const cpu::HeadShape& shape : kHeadShapes)
      for (const auto& [owns, same] : kKinds) {
        const Layer layer(random, shape, owns, same);
        const std::size_t d = shape.head_dim, q_width = shape.heads * d, kv_width = shape.kv_heads * d;
        const auto f = frequencies(shape.head_dim, 1e4, shape.head_dim / 4);
        for (const int position : {0, 77, 4001}) {
          const FloatRows x = random_rows(random, 1, layer.input_width(), -3, 3);
          FloatRows angles(1);
          for (const double angle : reference::rope_angles(position, f)) angles[0].push_back(static_cast<float>(angle));
          const auto input = doubles(x[0]), angle = doubles(angles[0]);

          auto expected = reference::norm_rope(reference::slice(input, 0, q_width), doubles(layer.q_norm), angle, kEpsilon);
          if (owns) {
            const auto keys = reference::slice(input, q_width, kv_width);
            const auto values = same ? keys : reference::slice(input, q_width + kv_width, kv_width);
            for (const double value : reference::norm_rope(keys, doubles(layer.k_norm), angle, kEpsilon))
              expected.push_back(value);
            for (const double value : reference::norm_values(values, d, kEpsilon)) expected.push_back(value);
          }
          // A rotation mixes two normed values below 4 (|x| <= 3, |w| <= 2, rms near sqrt(3)): a few roundings of those.
          const std::vector<double> allowed(expected.size(), 4e-6);
          expect(worst_error(qkv_norm_rope({row_at(position, 1)}, x, angles, layer).front(), expected, allowed) <= 1.0_d)
              << shape.heads << "heads," << shape.kv_heads << "K/V heads of" << shape.head_dim << "owns" << owns
              << "same" << same;
        }
      }
  };

  for (const bool bf16 : {false, true})
    test(std::string("qkv_norm_rope gives a row the same bits among any others, in any session, with K/V in ") +
         (bf16 ? "bfloat16" : "float32")) = [bf16] {
      Random random(4);
      for (const cpu::HeadShape& shape : {cpu::HeadShape{8, 2, 256}, cpu::HeadShape{4, 1, 512}, cpu::HeadShape{4, 2, 32}})
        for (const auto& [owns, same] : kKinds) {
          const Layer layer(random, shape, owns, same);
          const FloatRows x = random_rows(random, 17, layer.input_width(), -3, 3);
          const FloatRows angles = random_rows(random, 17, shape.head_dim, -1, 1);
          std::vector<graph::Row> rows;
          for (int r = 0; r < 17; ++r) rows.push_back(row_at(500 + r, r % kSlots));  // past the end of the ring
          expect_rows_independent(random, 17, [&](const std::vector<int>& numbers, int) {
            return qkv_norm_rope(gather(rows, numbers), gather(x, numbers), gather(angles, numbers), layer, bf16);
          });
        }
    };

  "keys and values in bfloat16 are those in float32, rounded; queries stay as they are"_test = [] {
    Random random(5);
    const Layer layer(random, {4, 2, 64}, true, false);
    const FloatRows x = random_rows(random, 3, layer.input_width(), -3, 3), angles = random_rows(random, 3, 64, -1, 1);
    const std::vector<graph::Row> rows = {row_at(5), row_at(kCapacity + 6, 2), row_at(64)};
    FloatRows expected = qkv_norm_rope(rows, x, angles, layer);
    const FloatRows got = qkv_norm_rope(rows, x, angles, layer, true);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t i = 4 * 64; i < expected[r].size(); ++i) expected[r][i] = from_bf16(to_bf16(expected[r][i]));
      expect(same_bits(got[r], expected[r])) << "row" << r;
    }
  };

  "the rows of the output window find their positions and sessions in the row table"_test = [] {
    Random random(6);
    const Layer layer(random, {2, 1, 32}, true, false);
    const FloatRows x = random_rows(random, 6, layer.input_width(), -3, 3), angles = random_rows(random, 6, 32, -1, 1);
    std::vector<graph::Row> rows;
    for (int r = 0; r < 6; ++r) rows.push_back(row_at(40 + r, r % kSlots));
    Stage stage(Op::qkv_norm_rope, dims_of(layer), 4);
    set_up(stage, layer, x, angles, false);
    stage.row_table(rows);
    stage.params().rows = metal::layout::kOutputRows;
    stage.params().in[0].windowed = stage.params().in[1].windowed = 1;
    stage.run().row_count = 6;
    stage.run().first_output = 2;
    stage.run().output_count = 3;
    stage.play();
    const FloatRows got = results(stage, layer, std::span(rows).subspan(2, 3));
    for (int r = 0; r < 3; ++r)
      expect(same_bits(got[r], qkv_norm_rope({rows[2 + r]}, {x[2 + r]}, {angles[2 + r]}, layer).front())) << "row" << r;
    expect(std::all_of(got[3].begin(), got[3].end(), is_untouched));
  };
};

}  // namespace
}  // namespace lapidary::test
