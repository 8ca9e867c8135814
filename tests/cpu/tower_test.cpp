// The kernels of towers: near their definitions, and a row has the same bits however the work is shared.
#include <boost/ut.hpp>

#include <cmath>

#include "cpu/instructions.hpp"
#include "cpu/kernel_rows.hpp"
#include "cpu/product.hpp"
#include "cpu/tower_kernels.hpp"
#include "link/kv.hpp"
#include "numeric/bf16.hpp"
#include "reference/tower.hpp"
#include "support/linear_tolerance.hpp"
#include "support/random_weights.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using reference::Table;
using reference::Vector;

Table table(const FloatRows& rows) {
  Table all;
  for (const auto& row : rows) all.push_back(doubles(row));
  return all;
}

void expect_near(const FloatRows& got, const Table& expected, double error) {
  expect(fatal(got.size() == expected.size()));
  double worst = 0.0;
  for (std::size_t r = 0; r < got.size(); ++r) {
    expect(fatal(got[r].size() == expected[r].size()));
    for (std::size_t i = 0; i < got[r].size(); ++i) {
      const double off = std::abs(got[r][i] - expected[r][i]);
      worst = std::isnan(off) ? INFINITY : std::max(worst, off / (1.0 + std::abs(expected[r][i])));
    }
  }
  expect(worst <= error) << worst;
}

void expect_same(const FloatRows& a, const FloatRows& b) {
  expect(fatal(a.size() == b.size()));
  for (std::size_t r = 0; r < a.size(); ++r) expect(same_bits(a[r], b[r])) << "row" << r;
}

// Runs a kernel in one part and in several: the bits are the same. Returns them.
template <class Kernel>
FloatRows in_any_parts(int rows, int width, Kernel kernel) {
  FloatRows first;
  for (const int parts : {1, 2, 3}) {
    RowBuffer out(rows, width);
    in_parts(parts, [&](cpu::Part part) { kernel(out.out(), part); });
    if (first.empty()) first = out.rows();
    else expect_same(out.rows(), first);
  }
  return first;
}

// [rows * columns], row by row, to the layout of a table of weights
std::vector<float> joined(const FloatRows& rows) {
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

const suite<"kernels of vision"> vision = [] {
  "scale_shift"_test = [] {
    Random random(1);
    const FloatRows x = random_rows(random, 7, 45);
    const RowBuffer in(x);
    const FloatRows got = in_any_parts(7, 45, [&](cpu::Out out, cpu::Part part) { cpu::scale_shift(7, in.in(), 45, 2.0f, -1.0f, out, part); });
    Table expected = table(x);
    for (Vector& row : expected)
      for (double& value : row) value = 2 * value - 1;
    expect_near(got, expected, 1e-6);
  };

  "add_positions finds column and row in either layout of the table"_test = [] {
    Random random(2);
    const int columns = 5, rows = 15, n = 300, positions = 9;
    for (const Storage& storage : plain_storages())
      for (const bool inside : {false, true}) {
        const RandomMatrix weights(random, storage, 2 * positions, n);
        const FloatRows h = random_rows(random, rows, n);
        FloatRows first;
        for (const int parts : {1, 3}) {
          RowBuffer buffer(h);
          in_parts(parts, [&](cpu::Part part) { cpu::add_positions(rows, columns, weights.view(), inside, buffer.out(), part); });
          if (first.empty()) first = buffer.rows();
          else expect_same(buffer.rows(), first);
        }
        Table expected, whole;
        for (int r = 0; r < 2 * positions; ++r) whole.push_back(reference::dequantise_row(weights.view(), r));
        for (int r = 0; r < rows; ++r) expected.push_back(reference::add_positions(doubles(h[r]), whole, r % columns, r / columns, inside));
        expect_near(first, expected, 1e-6);
      }
  };

  "grid_angles and qkv_grid_rope turn halves of a head by column and by row"_test = [] {
    Random random(3);
    for (const auto& [heads, d] : {std::pair{2, 32}, {12, 64}, {3, 72}, {1, 8}}) {
      const int rows = 9, columns = 3;
      std::vector<float> frequencies;
      for (int i = 0; i < d / 4; ++i) frequencies.push_back(static_cast<float>(std::pow(100.0, -4.0 * i / d)));
      const FloatRows angles = in_any_parts(rows, d, [&](cpu::Out out, cpu::Part part) { cpu::grid_angles(rows, columns, frequencies, out, part); });
      Table expected_angles;
      for (int r = 0; r < rows; ++r) expected_angles.push_back(reference::grid_angles(r % columns, r / columns, frequencies));
      expect_near(angles, expected_angles, 1e-6);

      const FloatRows qkv = random_rows(random, rows, 3 * heads * d);
      const std::vector<float> q_norm = random.floats(d, 0.5, 1.5), k_norm = random.floats(d, 0.5, 1.5);
      const RowBuffer in(qkv), turns(angles);
      const FloatRows got = in_any_parts(rows, 3 * heads * d, [&, heads = heads, d = d](cpu::Out out, cpu::Part part) {
        cpu::qkv_grid_rope(rows, in.in(), turns.in(), q_norm.data(), k_norm.data(), heads, d, kEpsilon, out, part);
      });
      Table expected;
      for (int r = 0; r < rows; ++r)
        expected.push_back(reference::qkv_grid_rope(doubles(qkv[r]), doubles(angles[r]), doubles(q_norm), doubles(k_norm), kEpsilon));
      expect_near(got, expected, 2e-6);
    }
  };

  "pool takes the mean of cells, with and without a standard"_test = [] {
    Random random(4);
    const int rows = 6, columns = 9, side = 3, n = 40, cells = 6;
    const FloatRows x = random_rows(random, rows * columns, n);
    const RowBuffer in(x);
    const std::vector<float> bias = random.floats(n, -1, 1), factor = random.floats(n, 0.5, 2);
    for (const bool standardised : {false, true}) {
      const FloatRows got = in_any_parts(cells, n, [&](cpu::Out out, cpu::Part part) {
        cpu::pool(cells, columns, side, in.in(), standardised ? bias.data() : nullptr, standardised ? factor.data() : nullptr, n, 6.3f, out, part);
      });
      const Vector none;
      expect_near(got, reference::pool(table(x), rows, columns, side, 6.3f, standardised ? doubles(bias) : none, standardised ? doubles(factor) : none),
                  2e-6);
    }
  };

  "layer_norm, and add_norm with and without its second output"_test = [] {
    Random random(5);
    for (const int n : {8, 33, 6912}) {
      const FloatRows x = random_rows(random, 5, n, -1, 4);
      const std::vector<float> weight = random.floats(n, 0.5, 1.5), bias = random.floats(n, -1, 1);
      const RowBuffer in(x);
      const FloatRows got = in_any_parts(5, n, [&](cpu::Out out, cpu::Part part) {
        cpu::layer_norm(5, in.in(), weight.data(), bias.data(), n, 1e-5f, out, part);
      });
      Table expected;
      for (const auto& row : x) expected.push_back(reference::layer_norm(doubles(row), doubles(weight), doubles(bias), 1e-5));
      expect_near(got, expected, 3e-6);

      const FloatRows h = random_rows(random, 5, n);
      RowBuffer residual(h), alone(h), normed(5, n);
      in_parts(3, [&](cpu::Part part) { cpu::add_norm(5, residual.out(), in.in(), weight.data(), n, kEpsilon, normed.out(), part); });
      in_parts(2, [&](cpu::Part part) { cpu::add_norm(5, alone.out(), in.in(), nullptr, n, kEpsilon, {}, part); });
      Table sums, norms;
      for (std::size_t r = 0; r < h.size(); ++r) {
        Vector sum = doubles(h[r]);
        for (int i = 0; i < n; ++i) sum[i] += x[r][i];
        norms.push_back(reference::rms_norm(sum, doubles(weight), kEpsilon));
        sums.push_back(std::move(sum));
      }
      expect_near(residual.rows(), sums, 1e-6);
      expect_near(normed.rows(), norms, 2e-6);
      expect_same(alone.rows(), residual.rows());
    }
  };

  "rms_norm without a weight, and residual_norm of a part of its update"_test = [] {
    Random random(6);
    const int n = 96;
    const FloatRows x = random_rows(random, 4, n), h = random_rows(random, 4, n);
    const std::vector<float> weight = random.floats(n, 0.5, 1.5);
    const RowBuffer in(x);
    const FloatRows got = in_any_parts(4, n, [&](cpu::Out out, cpu::Part part) { cpu::rms_norm(4, in.in(), nullptr, n, kEpsilon, out, part); });
    RowBuffer residual(h);
    cpu::residual_norm(4, residual.out(), in.in(), weight.data(), nullptr, n, kEpsilon, {}, {}, 0.5f);
    Table norms, residuals;
    for (std::size_t r = 0; r < x.size(); ++r) {
      norms.push_back(reference::rms(doubles(x[r]), kEpsilon));
      residuals.push_back(reference::residual(doubles(h[r]), doubles(x[r]), doubles(weight), 1.0, kEpsilon, 0.5));
    }
    expect_near(got, norms, 1e-6);
    expect_near(residual.rows(), residuals, 1e-6);
  };
};

const suite<"kernels of audio"> audio = [] {
  "conv_norm_relu halves frames and bands, with zeros around them"_test = [] {
    Random random(7);
    for (const auto& [frames, bands, inputs, channels] :
         {std::array{1, 8, 1, 8}, {2, 8, 1, 40}, {7, 8, 8, 16}, {6, 16, 24, 8}, {5, 128, 1, 128}}) {
      const FloatRows x = random_rows(random, frames, bands * inputs), kernel = random_rows(random, 9 * inputs, channels, -0.3, 0.3);
      const std::vector<float> norm = random.floats(channels, 0.5, 1.5), weights = joined(kernel);
      const RowBuffer in(x);
      const int rows = (frames - 1) / 2 + 1;
      const FloatRows got = in_any_parts(rows, bands / 2 * channels, [&, frames = frames, bands = bands, inputs = inputs, channels = channels](
                                                                         cpu::Out out, cpu::Part part) {
        cpu::conv_norm_relu(frames, bands, inputs, channels, in.in(), weights.data(), norm.data(), kEpsilon, out, part);
      });
      expect_near(got, reference::conv_norm_relu(table(x), bands, table(kernel), doubles(norm), kEpsilon), 1e-5);
    }
  };

  "distance_waves are sines, then cosines"_test = [] {
    std::vector<float> frequencies;
    for (int i = 0; i < 32; ++i) frequencies.push_back(static_cast<float>(std::exp(-i * std::log(10000.0) / 31)));
    const FloatRows got = in_any_parts(12, 64, [&](cpu::Out out, cpu::Part part) { cpu::distance_waves(12, frequencies, out, part); });
    Table expected;
    for (int r = 0; r < 12; ++r) expected.push_back(reference::distance_waves(r, frequencies));
    expect_near(got, expected, 1e-6);
  };

  "local_attention sees its window, and less at the beginning"_test = [] {
    Random random(8);
    for (const auto& [heads, d, window, frames] : {std::array{4, 16, 12, 30}, {8, 128, 12, 25}, {2, 8, 1, 5}, {1, 24, 12, 7}}) {
      const FloatRows qkv = random_rows(random, frames, 3 * heads * d), relative = random_rows(random, window, heads * d);
      const std::vector<float> dim_scale = random.floats(d, -2, 2);
      const cpu::LocalAttention shape{heads, d, window, 0.4f, 1.9f, 50.0f};
      const RowBuffer in(qkv), distances(relative);
      const FloatRows got = in_any_parts(frames, heads * d, [&, frames = frames](cpu::Out out, cpu::Part part) {
        cpu::local_attention(frames, in.in(), distances.in(), dim_scale.data(), shape, out, part);
      });
      expect_near(got, reference::local_attention(table(qkv), table(relative), doubles(dim_scale), {heads, d, window, 0.4f, 1.9f, 50.0f}), 2e-5);
    }
  };

  "glu_conv sees what came before it"_test = [] {
    Random random(9);
    for (const auto& [n, taps, frames] : {std::array{16, 5, 9}, {40, 5, 3}, {1024, 5, 6}, {8, 1, 2}}) {
      const FloatRows x = random_rows(random, frames, 2 * n), kernel = random_rows(random, taps, n);
      const std::vector<float> norm = random.floats(n, 0.5, 1.5), weights = joined(kernel);
      const RowBuffer in(x);
      const FloatRows got = in_any_parts(frames, n, [&, n = n, taps = taps, frames = frames](cpu::Out out, cpu::Part part) {
        cpu::glu_conv(frames, in.in(), weights.data(), taps, norm.data(), n, kEpsilon, out, part);
      });
      expect_near(got, reference::glu_conv(table(x), table(kernel), doubles(norm), kEpsilon), 5e-6);
    }
  };
};

// A way to multiply: rows, a product, what is in the output before, parts -> what is there after.
using Multiply = std::function<FloatRows(const FloatRows&, const cpu::TowerProduct&, const FloatRows&, int)>;

FloatRows multiply_f32(const FloatRows& x, const cpu::TowerProduct& product, const FloatRows& before, int parts) {
  const RowBuffer in(x);
  RowBuffer out(before);
  in_parts(parts, [&](cpu::Part part) {
    std::vector<float> room(static_cast<std::size_t>(cpu::kMaxLines) * product.weight->cols);
    cpu::multiply_f32(count_of(x), in.in(), product, out.out(), room.data(), part);
  });
  return out.rows();
}

Multiply multiply_packed(const cpu::PackedProducts& kernels) {
  return [&kernels](const FloatRows& x, const cpu::TowerProduct& product, const FloatRows& before, int parts) {
    const RowBuffer in(x);
    RowBuffer out(before);
    const int rows = count_of(x), cols = product.weight->cols;
    const int block = cpu::PackedProducts::kRows;
    std::vector<std::uint16_t> packed(static_cast<std::size_t>(rows + block - 1) / block * block * cols, 0x7fc0);
    in_parts(parts, [&](cpu::Part part) { kernels.pack(rows, in.in(), cols, product.weight->clip, packed.data(), part); });
    in_parts(parts, [&](cpu::Part part) {
      std::vector<std::uint16_t> room(static_cast<std::size_t>(cpu::PackedProducts::kPanelRows) * cols, 0x7fc0);
      kernels.multiply(rows, packed.data(), product, out.out(), room.data(), part);
    });
    return out.rows();
  };
}

float rounded(float x) { return numeric::from_bf16(numeric::to_bf16(x)); }

void test_products(const std::string& name, const Multiply& multiply, const std::vector<Storage>& storages, bool rounds) {
  const link::Clip clip{-0.9f, 1.1f, -2.0f, 2.5f};
  boost::ut::test(name + " products of towers are near their definitions, with bounds and without") = [=] {
    Random random(10);
    for (const Storage& storage : storages)
      for (const auto& [rows, n, k] : {std::array{1, 1, 64}, {3, 9, 128}, {8, 64, 64}, {17, 70, 192}, {261, 130, 64}})
        for (const bool clipped : {false, true})
          for (const cpu::Finish finish : {cpu::Finish::store, cpu::Finish::add, cpu::Finish::silu, cpu::Finish::gelu_mul}) {
            const RandomMatrix weights(random, storage, n, k);
            link::Matrix matrix = weights.view();
            if (clipped) matrix.clip = clip;
            const FloatRows x = random_rows(random, rows, k), before = random_rows(random, rows, n);
            const std::vector<float> bias = random.floats(n, -1, 1);
            const FloatRows got = multiply(x, {&matrix, finish, bias.data()}, before, 2);
            Table whole;
            for (int r = 0; r < n; ++r) whole.push_back(reference::dequantise_row(matrix, r));
            Table expected;
            for (std::size_t r = 0; r < x.size(); ++r) {
              Vector input = doubles(x[r]);
              if (rounds)  // within the bounds, then to bfloat16
                for (int i = 0; i < k; ++i) input[i] = rounded(std::clamp(x[r][i], matrix.clip.input_min, matrix.clip.input_max));
              link::Clip bounds = matrix.clip;
              if (rounds) bounds.input_min = -INFINITY, bounds.input_max = INFINITY;
              Vector y = reference::clipped_linear(whole, bounds, input);
              for (int j = 0; j < n; ++j) {
                if (finish == cpu::Finish::add) y[j] += bias[j];
                if (finish == cpu::Finish::silu) y[j] = reference::silu(y[j]);
                if (finish == cpu::Finish::gelu_mul) y[j] = reference::gelu(y[j]) * before[r][j];
              }
              expected.push_back(std::move(y));
            }
            expect_near(got, expected, 3e-5);
          }
  };
  boost::ut::test(name + " products of towers give a row the same bits among any others") = [=] {
    Random random(11);
    const int rows = 43, n = 75, k = 128;
    for (const Storage& storage : storages) {
      const RandomMatrix weights(random, storage, n, k);
      link::Matrix matrix = weights.view();
      matrix.clip = clip;
      const FloatRows x = random_rows(random, rows, k);
      expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
        return multiply(gather(x, numbers), {&matrix}, FloatRows(numbers.size(), std::vector<float>(n)), parts);
      });
    }
  };
}

// K and V of one head as packed attention takes them, rounded.
struct PackedKeys {
  std::vector<std::uint16_t> k, v;
  Table keys, values;

  PackedKeys(Random& random, int count, int d) {
    const int capacity = (count + 63) / 64 * 64;
    k.resize(static_cast<std::size_t>(capacity) * d);
    v.resize(k.size());
    const link::KvCacheBf16 cache{k.data(), v.data(), 1, d, capacity, 0};
    for (int t = 0; t < count; ++t) {
      keys.emplace_back();
      values.emplace_back();
      for (int i = 0; i < d; ++i) {
        const std::uint16_t key = numeric::to_bf16(static_cast<float>(random.uniform(-0.5, 0.5))), value = numeric::to_bf16(static_cast<float>(random.uniform(-1, 1)));
        k[cache.key_index(0, 0, t, i)] = key;
        v[cache.value_index(0, 0, t, i)] = value;
        keys.back().push_back(numeric::from_bf16(key));
        values.back().push_back(numeric::from_bf16(value));
      }
    }
  }
};

FloatRows attend(const cpu::PackedAttention& kernel, const FloatRows& q, const PackedKeys& keys) {
  const int d = static_cast<int>(q[0].size());
  const RowBuffer in(q);
  RowBuffer out(count_of(q), d);
  for (int first = 0; first < count_of(q); first += cpu::PackedAttention::kRows)
    kernel.attend(std::min(cpu::PackedAttention::kRows, count_of(q) - first), in.in().from(first), keys.k.data(), keys.v.data(),
                  static_cast<int>(keys.keys.size()), d, out.out().from(first));
  return out.rows();
}

void test_attention(const std::string& name, const cpu::PackedAttention& kernel) {
  boost::ut::test(name + " attention over all rows is near its definition") = [=] {
    Random random(12);
    for (const int d : {8, 32, 48, 64, 72})
      for (const int count : {1, 2, 7, 8, 9, 63, 64, 65, 130, 1023, 1024, 1025, 1100}) {
        const PackedKeys keys(random, count, d);
        const FloatRows q = random_rows(random, 5, d, -3, 3);
        Table expected;
        for (const auto& row : q) {
          Vector query;
          for (const float x : row) query.push_back(rounded(x));
          expected.push_back(reference::attention_head(query, keys.keys, keys.values, count - 1, count - 1, 0));
        }
        expect_near(attend(kernel, q, keys), expected, 0.004);  // probabilities have 8 bits
      }
  };
  boost::ut::test(name + " attention over all rows gives a row the same bits among any others") = [=] {
    Random random(13);
    const PackedKeys keys(random, 1100, 64);
    const FloatRows q = random_rows(random, 29, 64);
    expect_rows_independent(random, 29, [&](const std::vector<int>& numbers, int) { return attend(kernel, gather(q, numbers), keys); });
  };
}

const suite<"products of towers"> products = [] {
  const Storage bf16{Encoding::plain, DType::bf16, 16, 0};
  test_products("float32", multiply_f32, {bf16, {Encoding::plain, DType::f32, 32, 0}, {Encoding::affine, DType::bf16, 4, 64}}, false);
  for (const cpu::Instructions& instructions : cpu::all_instructions())
    if (instructions.here && instructions.tower_products) {
      test_products(std::string(instructions.name), multiply_packed(*instructions.tower_products), {bf16}, true);
      test_attention(std::string(instructions.name), *instructions.tower_attention);
    }
};

}  // namespace
}  // namespace lapidary::test
