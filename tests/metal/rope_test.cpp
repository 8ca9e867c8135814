// rope_angles, qkv_norm_rope and block_qkv on the device.
#include <boost/ut.hpp>

#include "metal/stage.hpp"
#include "support/rope_cases.hpp"

namespace lapidary::test::rope_test {
namespace {

using namespace boost::ut;
using graph::Op;

FloatRows rope_angles(const std::vector<graph::Row>& rows, const std::vector<float>& f, int) {
  const int head_dim = 2 * count_of(f);
  Stage stage(Op::rope_angles, {.n = {head_dim}, .head_dim = head_dim}, count_of(rows));
  stage.row_table(rows);
  stage.constants(f);
  stage.out(0, head_dim);
  stage.play();
  return stage.floats(0);
}

graph::Dims dims_of(const RopeLayer& layer) {
  return {.heads = layer.shape.heads, .kv_heads = layer.shape.kv_heads, .head_dim = layer.shape.head_dim,
          .epsilon = kEpsilon, .owns_kv = layer.owns_kv, .values_are_keys = layer.values_are_keys};
}

// All but the row table.
void set_up(Stage& stage, const RopeLayer& layer, const FloatRows& qkv, const FloatRows& angles, bool bf16) {
  stage.in(0, qkv);
  stage.in(1, angles);
  stage.vector(0, layer.q_norm);
  stage.out(0, layer.shape.heads * layer.shape.head_dim);
  if (!layer.owns_kv) return;
  stage.vector(1, layer.k_norm);
  const std::vector<float> empty = layer.empty_memory(8);
  stage.kv(empty, empty, RopeLayer::kCapacity, empty.size() / RopeLayer::kSlots, bf16);
}

FloatRows results(const Stage& stage, const RopeLayer& layer, std::span<const graph::Row> rows, bool bf16) {
  FloatRows all = stage.floats(0);
  if (layer.owns_kv)
    for (const auto& memory : {stage.keys(), stage.values()}) layer.take_written(memory, rows, bf16, all);
  return all;
}

FloatRows qkv_norm_rope(const std::vector<graph::Row>& rows, const FloatRows& qkv, const FloatRows& angles,
                        const RopeLayer& layer, bool bf16, int) {
  Stage stage(Op::qkv_norm_rope, dims_of(layer), count_of(rows));
  set_up(stage, layer, qkv, angles, bf16);
  stage.row_table(rows);
  stage.play();
  return results(stage, layer, rows, bf16);
}

FloatRows block_qkv(const std::vector<graph::Row>& rows, const FloatRows& qkv, const FloatRows& angles, const RopeLayer& layer,
                    float scale, bool bf16, int) {
  graph::Dims dims = dims_of(layer);
  dims.scale = scale;
  Stage stage(Op::block_qkv, dims, count_of(rows));
  stage.in(0, qkv);
  stage.in(1, angles);
  stage.vector(1, layer.k_norm);
  const std::vector<float> empty = layer.empty_memory(8);
  stage.kv(empty, empty, RopeLayer::kCapacity, empty.size() / RopeLayer::kSlots, bf16);
  stage.row_table(rows);
  if (layer.shape.heads > 0) {
    stage.vector(0, layer.q_norm);
    stage.out(0, layer.shape.heads * layer.shape.head_dim);
  }
  stage.play();
  FloatRows all = layer.shape.heads > 0 ? stage.floats(0) : FloatRows(rows.size());
  for (const auto& memory : {stage.keys(), stage.values()}) layer.take_written(memory, rows, bf16, all);
  return all;
}

const RopeKernels kKernels{
    .rope_angles = rope_angles, .qkv_norm_rope = qkv_norm_rope, .block_qkv = block_qkv, .kv_in_bf16 = {false, true}, .rows = 17};

suite<"rope on the device"> rope_suite = [] {
  test_rope_angles(kKernels);
  test_qkv_norm_rope(kKernels);
  test_block_qkv(kKernels);

  "keys and values in bfloat16 are those in float32, rounded; queries stay as they are"_test = [] {
    Random random(5);
    const RopeLayer layer(random, {4, 2, 64}, true, false);
    const FloatRows x = random_rows(random, 3, layer.input_width(), -3, 3), angles = random_rows(random, 3, 64, -1, 1);
    const std::vector<graph::Row> rows = {row_at(5), row_at(RopeLayer::kCapacity + 6, 2), row_at(64)};
    FloatRows expected = qkv_norm_rope(rows, x, angles, layer, false, 1);
    const FloatRows got = qkv_norm_rope(rows, x, angles, layer, true, 1);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t i = 4 * 64; i < expected[r].size(); ++i) expected[r][i] = numeric::from_bf16(numeric::to_bf16(expected[r][i]));
      expect(same_bits(got[r], expected[r])) << "row" << r;
    }
  };

  "the rows of the output window find their positions and sessions in the row table"_test = [] {
    Random random(6);
    const RopeLayer layer(random, {2, 1, 32}, true, false);
    const FloatRows x = random_rows(random, 6, layer.input_width(), -3, 3), angles = random_rows(random, 6, 32, -1, 1);
    std::vector<graph::Row> rows;
    for (int r = 0; r < 6; ++r) rows.push_back(row_at(40 + r, r % RopeLayer::kSlots));
    Stage stage(Op::qkv_norm_rope, dims_of(layer), 4);
    set_up(stage, layer, x, angles, false);
    stage.row_table(rows);
    stage.params().rows = metal::layout::kOutputRows;
    stage.params().in[0].windowed = stage.params().in[1].windowed = 1;
    stage.run().row_count = 6;
    stage.run().first_output = 2;
    stage.run().output_count = 3;
    stage.play();
    const FloatRows got = results(stage, layer, std::span(rows).subspan(2, 3), false);
    for (int r = 0; r < 3; ++r) {
      const auto alone = qkv_norm_rope({rows[2 + r]}, {x[2 + r]}, {angles[2 + r]}, layer, false, 1).front();
      expect(same_bits(got[r], alone)) << "row" << r;
    }
    expect(std::all_of(got[3].begin(), got[3].end(), is_untouched));
  };
};

}  // namespace
}  // namespace lapidary::test::rope_test
