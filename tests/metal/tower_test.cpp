// The kernels of towers on the device.
#include <boost/ut.hpp>

#include "metal/stage.hpp"
#include "support/tower_cases.hpp"

namespace lapidary::test::tower_test {
namespace {

using namespace boost::ut;
using graph::Op;
using metal::NumericClass;
using reference::Table;

const TowerKernels kKernels{
    .scale_shift = [](const FloatRows& x, float scale, float shift) {
      const int n = count_of(x[0]);
      Stage stage(Op::scale_shift, {.n = {n}, .scale = scale, .scale2 = shift}, count_of(x));
      stage.in(0, x);
      stage.out(0, n);
      stage.play();
      return stage.floats(0);
    },
    .add_positions = [](const FloatRows& h, int columns, const link::Matrix& table, bool axis_inside) {
      Stage stage(Op::add_positions, {.n = {table.cols}, .axis_inside = axis_inside}, count_of(h));
      stage.run().columns = columns;
      stage.out(0, h);
      stage.in_place(0, 0);
      stage.matrix(0, table);
      stage.play();
      return stage.floats(0);
    },
    .grid_angles = [](int rows, int columns, const std::vector<float>& frequencies) {
      const int d = 4 * count_of(frequencies);
      Stage stage(Op::grid_angles, {.n = {d}, .head_dim = d}, rows);
      stage.run().columns = columns;
      stage.constants(frequencies);
      stage.out(0, d);
      stage.play();
      return stage.floats(0);
    },
    .qkv_grid_rope = [](const FloatRows& qkv, const FloatRows& angles, const std::vector<float>& q_norm, const std::vector<float>& k_norm) {
      const int width = count_of(qkv[0]), d = count_of(q_norm), heads = width / 3 / d;
      Stage stage(Op::qkv_grid_rope, {.heads = heads, .kv_heads = heads, .head_dim = d, .epsilon = kEpsilon}, count_of(qkv));
      stage.in(0, qkv);
      stage.in(1, angles);
      stage.vector(0, q_norm);
      stage.vector(1, k_norm);
      stage.out(0, width);
      stage.play();
      return stage.floats(0);
    },
    .pool = [](const FloatRows& x, int columns, int side, float scale, const std::vector<float>& bias, const std::vector<float>& factor) {
      const int n = count_of(x[0]);
      Stage stage(Op::pool, {.n = {n}, .window = side, .scale = scale}, count_of(x) / side / side);
      stage.run().columns = columns;
      stage.in(0, x);
      if (!bias.empty()) {
        stage.vector(0, bias);
        stage.vector(1, factor);
      }
      stage.out(0, n);
      stage.play();
      return stage.floats(0);
    },
    .layer_norm = [](const FloatRows& x, const std::vector<float>& weight, const std::vector<float>& bias, float epsilon) {
      Stage stage(Op::layer_norm, {.n = {count_of(weight)}, .epsilon = epsilon}, count_of(x));
      stage.in(0, x);
      stage.vector(0, weight);
      stage.vector(1, bias);
      stage.out(0, count_of(weight));
      stage.play();
      return stage.floats(0);
    },
    .add_norm = [](const FloatRows& h, const FloatRows& y, const std::vector<float>& weight) {
      const int n = count_of(h[0]);
      Stage stage(Op::add_norm, {.n = {n}, .epsilon = kEpsilon}, count_of(h));
      stage.out(0, h);
      stage.in_place(0, 0);
      stage.in(1, y);
      if (!weight.empty()) {
        stage.vector(0, weight);
        stage.out(1, n);
      }
      stage.play();
      FloatRows all = stage.floats(0);
      if (!weight.empty()) append_rows(all, stage.floats(1));
      return all;
    },
    .rms = [](const FloatRows& x) {
      const int n = count_of(x[0]);
      Stage stage(Op::rms_norm, {.n = {n}, .epsilon = kEpsilon}, count_of(x));
      stage.in(0, x);
      stage.out(0, n);
      stage.play();
      return stage.floats(0);
    },
    .residual_part = [](const FloatRows& h, const FloatRows& y, const std::vector<float>& weight, float part) {
      Stage stage(Op::residual_norm, {.n = {count_of(weight)}, .scale2 = part, .epsilon = kEpsilon}, count_of(h));
      stage.out(0, h);
      stage.in_place(0, 0);
      stage.in(1, y);
      stage.vector(0, weight);
      stage.play();
      return stage.floats(0);
    },
    .conv_norm_relu = [](const FloatRows& x, int bands, const FloatRows& taps, const std::vector<float>& norm) {
      const int frames = count_of(x), channels = count_of(norm), width = bands / 2 * channels;
      Stage stage(Op::conv_norm_relu, {.k = count_of(x[0]), .n = {width}, .channels = channels, .epsilon = kEpsilon}, (frames - 1) / 2 + 1);
      stage.run().input_rows = frames;
      stage.in(0, x);
      stage.vector(0, joined(taps));
      stage.vector(1, norm);
      stage.out(0, width);
      stage.play();
      return stage.floats(0);
    },
    .distance_waves = [](int rows, const std::vector<float>& frequencies) {
      const int k = 2 * count_of(frequencies);
      Stage stage(Op::distance_waves, {.k = k}, rows);
      stage.constants(frequencies);
      stage.out(0, k);
      stage.play();
      return stage.floats(0);
    },
    .local_attention = [](const FloatRows& qkv, const FloatRows& relative, const std::vector<float>& dim_scale, const reference::LocalAttention& shape) {
      Stage stage(Op::local_attention,
                  {.heads = shape.heads, .kv_heads = shape.heads, .head_dim = shape.head_dim, .window = shape.window,
                   .scale = static_cast<float>(shape.query_scale), .scale2 = static_cast<float>(shape.key_scale), .cap = static_cast<float>(shape.cap)},
                  count_of(qkv));
      stage.in(0, qkv);
      stage.in(1, relative);
      stage.vector(0, dim_scale);
      stage.out(0, shape.heads * shape.head_dim);
      stage.play();
      return stage.floats(0);
    },
    .glu_conv = [](const FloatRows& x, const FloatRows& taps, const std::vector<float>& norm) {
      Stage stage(Op::glu_conv, {.n = {count_of(norm)}, .window = count_of(taps), .epsilon = kEpsilon}, count_of(x));
      stage.in(0, x);
      stage.vector(0, joined(taps));
      stage.vector(1, norm);
      stage.out(0, count_of(norm));
      stage.play();
      return stage.floats(0);
    },
};

const suite<"vision on the device"> vision = [] { test_vision_kernels(kKernels); };
const suite<"audio on the device"> audio = [] { test_audio_kernels(kKernels); };

// The first `rows` rows, which see all.
FloatRows attention_all(const FloatRows& qkv, int heads, int rows) {
  const int d = count_of(qkv[0]) / 3 / heads;
  Stage stage(Op::attention_all, {.heads = heads, .kv_heads = heads, .head_dim = d}, rows);
  stage.run().input_rows = count_of(qkv);
  stage.in(0, qkv);
  stage.out(0, heads * d);
  stage.play();
  return stage.floats(0);
}

const suite<"attention over all rows on the device"> attention = [] {
  "attention_all is near its definition"_test = [] {
    Random random(1);
    for (const auto& [heads, d, rows] : {std::array{2, 32, 1}, {2, 32, 65}, {3, 48, 32}, {2, 64, 100}, {2, 72, 33}, {1, 8, 7}, {1, 128, 70}}) {
      const FloatRows qkv = random_rows(random, rows, 3 * heads * d, -1, 1);
      expect_near(attention_all(qkv, heads, rows), reference::attention_all(table_of(qkv), heads, d), 5e-6);
    }
  };

  "attention_all gives a row the same bits whatever other rows there are"_test = [] {
    Random random(2);
    const FloatRows qkv = random_rows(random, 70, 3 * 2 * 72);
    const FloatRows all = attention_all(qkv, 2, 70);
    for (const int rows : {1, 9, 33}) expect_same(attention_all(qkv, 2, rows), {all.begin(), all.begin() + rows});
  };

  "a head that no kernel is made for is refused"_test = [] {
    const FloatRows odd(2, std::vector<float>(3 * 12)), large(2, std::vector<float>(3 * 136));
    for (const FloatRows& qkv : {odd, large}) expect(throws([&] { attention_all(qkv, 1, 2); }));
  };
};

Table product(const link::Matrix& matrix, const FloatRows& x) {
  const Table weights = table_of(matrix);
  Table all;
  for (const auto& row : x) all.push_back(reference::clipped_linear(weights, matrix.clip, doubles(row)));
  return all;
}

const suite<"products of towers on the device"> products = [] {
  static const link::Clip kClips[] = {{-0.9f, 1.1f, -2.0f, 2.5f}, {-0.5f, 0.4f, -1.0f, 1.5f}, {-1.4f, 1.4f, -4.0f, 0.5f}};
  static const std::vector<Storage> kStorages = {{Encoding::plain, DType::bf16, 16, 0}, {Encoding::plain, DType::f32, 32, 0}, {Encoding::affine, DType::bf16, 4, 64}};

  "linear has the bounds of each of its matrices"_test = [] {
    Random random(3);
    for (const Storage& storage : kStorages)
      for (const auto& [rows, n, k] : {std::array{1, 1, 64}, {33, 70, 192}}) {
        const FloatRows x = random_rows(random, rows, k);
        const std::vector<RandomMatrix> weights = {{random, storage, n, k}, {random, storage, n + 3, k}, {random, storage, n, k}};
        Stage stage(Op::linear, {.k = k, .n = {n, n + 3, n}}, rows, NumericClass::prompt);
        stage.in(0, x);
        stage.out(0, 3 * n + 3);
        Table expected(x.size());
        for (int i = 0; i < 3; ++i) {
          link::Matrix matrix = weights[i].view();
          matrix.clip = kClips[i];
          stage.matrix(i, matrix);
          const Table products = product(matrix, x);
          for (std::size_t r = 0; r < x.size(); ++r) expected[r].insert(expected[r].end(), products[r].begin(), products[r].end());
        }
        stage.play();
        expect_near(stage.floats(0), expected, 3e-5);
      }
  };

  "linear_gelu_mul, linear_bias and linear_silu, with bounds and without"_test = [] {
    Random random(4);
    const int rows = 35, n = 70, k = 192;
    for (const Storage& storage : kStorages)
      for (const bool clipped : {false, true})
        for (const Op op : {Op::linear_gelu_mul, Op::linear_bias, Op::linear_silu}) {
          const FloatRows x = random_rows(random, rows, k);
          const std::vector<float> bias = random.floats(n, -1, 1);
          const RandomMatrix first(random, storage, n, k), second(random, storage, n, k);
          link::Matrix matrix = first.view(), other = second.view();
          if (clipped) matrix.clip = kClips[0], other.clip = kClips[1];
          Stage stage(op, {.k = k, .n = {n}}, rows, NumericClass::prompt);
          stage.in(0, x);
          stage.matrix(0, matrix);
          if (op == Op::linear_gelu_mul) stage.matrix(1, other);
          if (op == Op::linear_bias) stage.vector(1, bias);
          stage.out(0, n);
          stage.play();
          Table expected = product(matrix, x);
          const Table factors = product(other, x);
          for (std::size_t r = 0; r < x.size(); ++r)
            for (int j = 0; j < n; ++j) {
              double& y = expected[r][j];
              y = op == Op::linear_bias ? y + bias[j] : op == Op::linear_silu ? reference::silu(y) : reference::gelu(y) * factors[r][j];
            }
          expect_near(stage.floats(0), expected, 3e-5);
        }
  };
};

}  // namespace
}  // namespace lapidary::test::tower_test
