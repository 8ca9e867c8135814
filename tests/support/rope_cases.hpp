// rope_angles, qkv_norm_rope and block_qkv of a backend, for the head layouts of the published models.
#pragma once

#include <span>
#include <string>

#include "reference/rope.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

// A layer and the memory for the K/V of kSlots sessions, kCapacity positions each.
struct RopeLayer {
  static constexpr int kSlots = 3, kCapacity = 128;

  Heads shape;
  bool owns_kv, values_are_keys;
  std::vector<float> q_norm, k_norm;

  RopeLayer(Random& random, const Heads& s, bool owns, bool same)
      : shape(s),
        owns_kv(owns),
        values_are_keys(same),
        q_norm(random.floats(s.head_dim, -2, 2)),
        k_norm(random.floats(s.head_dim, -2, 2)) {}

  int input_width() const {
    return (shape.heads + (owns_kv ? shape.kv_heads * (values_are_keys ? 1 : 2) : 0)) * shape.head_dim;
  }

  // Keys or values of all sessions, nothing written yet. gap: elements between sessions
  std::vector<float> empty_memory(int gap) const {
    const int slot_elements = shape.kv_heads * kCapacity * shape.head_dim + gap;
    return std::vector<float>(static_cast<std::size_t>(slot_elements) * kSlots, kUntouched);
  }

  // Puts what the rows have in this memory behind them. Nothing else in it may have been written.
  void take_written(std::vector<float> memory, std::span<const graph::Row> rows, bool bf16, FloatRows& all) const {
    const std::size_t slot_elements = memory.size() / kSlots;
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (int head = 0; head < shape.kv_heads; ++head) {
        const int ring = head * kCapacity + rows[r].position % kCapacity;
        const auto at = memory.begin() + static_cast<std::ptrdiff_t>(slot_elements * rows[r].slot) + ring * shape.head_dim;
        all[r].insert(all[r].end(), at, at + shape.head_dim);
        std::fill(at, at + shape.head_dim, kUntouched);
      }
    // bfloat16 has no room for all bits of kUntouched.
    boost::ut::expect(std::ranges::all_of(memory, [&](float x) { return bf16 ? std::isnan(x) : is_untouched(x); }))
        << "K/V written where no row is";
  }
};

struct RopeKernels {
  std::function<FloatRows(const std::vector<graph::Row>& rows, const std::vector<float>& frequencies, int parts)>
      rope_angles;
  // Returns q | K | V of each row, having looked at all memory.
  std::function<FloatRows(const std::vector<graph::Row>& rows, const FloatRows& qkv, const FloatRows& angles,
                          const RopeLayer& layer, bool bf16, int parts)> qkv_norm_rope;
  // Likewise; without query heads K | V.
  std::function<FloatRows(const std::vector<graph::Row>& rows, const FloatRows& qkv, const FloatRows& angles,
                          const RopeLayer& layer, float scale, bool bf16, int parts)> block_qkv;
  std::vector<bool> kv_in_bf16;  // the kinds of K/V it has
  int rows;                      // to compute together
};

// theta^(-2i/D), zero from `rotated` on.
inline std::vector<float> frequencies(int head_dim, double theta, int rotated) {
  std::vector<float> all;
  for (int i = 0; i < head_dim / 2; ++i)
    all.push_back(i < rotated ? static_cast<float>(std::pow(theta, -2.0 * i / head_dim)) : 0.0f);
  return all;
}

inline void test_rope_angles(const RopeKernels& kernels) {
  using namespace boost::ut;

  "rope_angles are the cosines and sines of float32 angles, up to the longest context"_test = [&] {
    Random random(1);
    std::vector<graph::Row> rows;
    for (const int position : {0, 1, 2, 3, 11, 22, 63, 64, 333, 355, 710, 1000, 65535, 100003, 131071, 131072, 262143})
      rows.push_back(row_at(position));
    for (int r = 0; r < 300; ++r) rows.push_back(row_at(random.below(262144)));
    for (const auto& f :
         {frequencies(256, 1e4, 128), frequencies(512, 1e6, 64), frequencies(64, 1e4, 32), frequencies(32, 1e6, 4)}) {
      const FloatRows got = kernels.rope_angles(rows, f, 1);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto expected = reference::rope_angles(rows[r].position, f);
        const std::vector<double> allowed(expected.size(), 1.2e-7);  // two roundings of a value up to one
        expect(worst_error(got[r], expected, allowed) <= 1.0_d) << "position" << rows[r].position;
      }
    }
  };

  "rope_angles gives a row the same bits among any others"_test = [&] {
    Random random(2);
    const auto f = frequencies(512, 1e6, 64);
    std::vector<graph::Row> rows;
    for (int r = 0; r < kernels.rows; ++r) rows.push_back(row_at(random.below(262144)));
    expect_rows_independent(random, kernels.rows, [&](const std::vector<int>& numbers, int parts) {
      return kernels.rope_angles(gather(rows, numbers), f, parts);
    });
  };
}

inline const std::vector<Heads> kRopeHeads = {{8, 1, 256},  {8, 1, 512},   {8, 2, 256},  {8, 2, 512}, {16, 8, 256},
                                              {16, 1, 512}, {16, 2, 512},  {32, 16, 256}, {32, 4, 512}, {4, 2, 32},
                                              {4, 1, 64},   {2, 1, 96},    {6, 3, 128}};

// Owns K/V, values are keys.
inline constexpr std::pair<bool, bool> kKvKinds[] = {{true, false}, {true, true}, {false, false}};

inline void expect_qkv_norm_rope(Random& random, const RopeKernels& kernels, const RopeLayer& layer, int position) {
  const std::size_t d = layer.shape.head_dim, q_width = layer.shape.heads * d, kv_width = layer.shape.kv_heads * d;
  const auto f = frequencies(layer.shape.head_dim, 1e4, layer.shape.head_dim / 4);
  const FloatRows x = random_rows(random, 1, layer.input_width(), -3, 3);
  FloatRows angles(1);
  for (const double angle : reference::rope_angles(position, f)) angles[0].push_back(static_cast<float>(angle));
  const auto input = doubles(x[0]), angle = doubles(angles[0]);

  auto expected = reference::norm_rope(reference::slice(input, 0, q_width), doubles(layer.q_norm), angle, kEpsilon);
  if (layer.owns_kv) {
    const auto keys = reference::slice(input, q_width, kv_width);
    const auto values = layer.values_are_keys ? keys : reference::slice(input, q_width + kv_width, kv_width);
    for (const double value : reference::norm_rope(keys, doubles(layer.k_norm), angle, kEpsilon)) expected.push_back(value);
    for (const double value : reference::norm_values(values, d, kEpsilon)) expected.push_back(value);
  }
  // A rotation mixes two normed values below 4 (|x| <= 3, |w| <= 2, rms near sqrt(3)): a few roundings of those.
  const std::vector<double> allowed(expected.size(), 4e-6);
  const auto got = kernels.qkv_norm_rope({row_at(position, 1)}, x, angles, layer, false, 1).front();
  boost::ut::expect(worst_error(got, expected, allowed) <= 1.0)
      << layer.shape.heads << "heads," << layer.shape.kv_heads << "K/V heads of" << d << "owns" << layer.owns_kv << "same"
      << layer.values_are_keys;
}

inline void test_qkv_norm_rope(const RopeKernels& kernels) {
  using namespace boost::ut;

  "qkv_norm_rope is near its definition with own K/V, with values that are keys, and without K/V"_test = [&] {
    Random random(3);
    for (const Heads& shape : kRopeHeads)
      for (const auto& [owns, same] : kKvKinds) {
        const RopeLayer layer(random, shape, owns, same);
        for (const int position : {0, 77, 4001}) expect_qkv_norm_rope(random, kernels, layer, position);
      }
  };

  for (const bool bf16 : kernels.kv_in_bf16)
    boost::ut::test(std::string("qkv_norm_rope gives a row the same bits among any others, in any session, with K/V in ") +
                    (bf16 ? "bfloat16" : "float32")) = [&kernels, bf16] {
      Random random(4);
      for (const Heads& shape : {Heads{8, 2, 256}, Heads{4, 1, 512}, Heads{4, 2, 32}})
        for (const auto& [owns, same] : kKvKinds) {
          const RopeLayer layer(random, shape, owns, same);
          const FloatRows x = random_rows(random, kernels.rows, layer.input_width(), -3, 3);
          const FloatRows angles = random_rows(random, kernels.rows, shape.head_dim, -1, 1);
          std::vector<graph::Row> rows;  // past the end of the ring
          for (int r = 0; r < kernels.rows; ++r) rows.push_back(row_at(500 + r, r % RopeLayer::kSlots));
          expect_rows_independent(random, kernels.rows, [&](const std::vector<int>& numbers, int parts) {
            return kernels.qkv_norm_rope(gather(rows, numbers), gather(x, numbers), gather(angles, numbers), layer, bf16,
                                         parts);
          });
        }
    };
}

// Heads of the published block drafters, of small ones, and of what only makes K/V of a context.
inline const std::vector<Heads> kBlockHeads = {{32, 8, 128}, {64, 8, 128}, {4, 2, 16}, {6, 3, 64}, {0, 8, 128}, {0, 2, 16}};

inline void test_block_qkv(const RopeKernels& kernels) {
  using namespace boost::ut;

  "block_qkv is near its definition, with and without queries"_test = [&] {
    Random random(6);
    for (const Heads& shape : kBlockHeads) {
      const RopeLayer layer(random, shape, true, false);
      const float scale = static_cast<float>(1 / std::sqrt(shape.head_dim));
      for (const int position : {0, 77, 4001}) {
        const FloatRows x = random_rows(random, 1, layer.input_width(), -3, 3);
        FloatRows angles(1);
        for (const double angle : reference::rope_angles(position, frequencies(shape.head_dim, 1e6, shape.head_dim / 2)))
          angles[0].push_back(static_cast<float>(angle));
        const auto expected = reference::block_qkv(doubles(x[0]), shape.heads, shape.kv_heads, doubles(layer.q_norm),
                                                   doubles(layer.k_norm), doubles(angles[0]), scale, kEpsilon);
        const std::vector<double> allowed(expected.size(), 4e-6);  // as qkv_norm_rope
        const auto got = kernels.block_qkv({row_at(position, 1)}, x, angles, layer, scale, false, 1).front();
        expect(worst_error(got, expected, allowed) <= 1.0) << shape.heads << "heads of" << shape.head_dim;
      }
    }
  };

  for (const bool bf16 : kernels.kv_in_bf16)
    boost::ut::test(std::string("block_qkv gives a row the same bits among any others, in any session, with K/V in ") +
                    (bf16 ? "bfloat16" : "float32")) = [&kernels, bf16] {
      Random random(7);
      for (const Heads& shape : {Heads{8, 2, 128}, Heads{4, 2, 16}, Heads{0, 2, 64}}) {
        const RopeLayer layer(random, shape, true, false);
        const FloatRows x = random_rows(random, kernels.rows, layer.input_width(), -3, 3);
        const FloatRows angles = random_rows(random, kernels.rows, shape.head_dim, -1, 1);
        std::vector<graph::Row> rows;  // past the end of the ring
        for (int r = 0; r < kernels.rows; ++r) rows.push_back(row_at(500 + r, r % RopeLayer::kSlots));
        expect_rows_independent(random, kernels.rows, [&](const std::vector<int>& numbers, int parts) {
          return kernels.block_qkv(gather(rows, numbers), gather(x, numbers), gather(angles, numbers), layer, 0.25f, bf16, parts);
        });
      }
    };
}

}  // namespace lapidary::test
