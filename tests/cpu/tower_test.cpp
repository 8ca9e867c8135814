// The kernels of towers: near their definitions, and a row has the same bits however the work is shared.
#include <boost/ut.hpp>

#include <cmath>

#include "cpu/instructions.hpp"
#include "cpu/kernel_rows.hpp"
#include "cpu/product.hpp"
#include "cpu/tower_kernels.hpp"
#include "link/kv.hpp"
#include "numeric/bf16.hpp"
#include "support/linear_tolerance.hpp"
#include "support/tower_cases.hpp"

namespace lapidary::test::tower_test {
namespace {

using namespace boost::ut;
using reference::Table;
using reference::Vector;

// Runs a kernel in one part and in several, over an output that begins as `begins`: the bits are the same. Returns them.
template <class Kernel>
FloatRows in_any_parts(const RowBuffer& begins, Kernel kernel) {
  FloatRows first;
  for (const int parts : {1, 2, 3}) {
    RowBuffer out = begins;
    in_parts(parts, [&](cpu::Part part) { kernel(out.out(), part); });
    if (first.empty()) first = out.rows();
    else expect_same(out.rows(), first);
  }
  return first;
}

const float* data_of(const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); }

const TowerKernels kKernels{
    .scale_shift = [](const FloatRows& x, float scale, float shift) {
      const int rows = count_of(x), n = count_of(x[0]);
      const RowBuffer in(x);
      return in_any_parts({rows, n}, [&](cpu::Out out, cpu::Part part) { cpu::scale_shift(rows, in.in(), n, scale, shift, out, part); });
    },
    .add_positions = [](const FloatRows& h, int columns, const link::Matrix& table, bool axis_inside) {
      return in_any_parts(RowBuffer(h), [&](cpu::Out out, cpu::Part part) { cpu::add_positions(count_of(h), columns, table, axis_inside, out, part); });
    },
    .grid_angles = [](int rows, int columns, const std::vector<float>& frequencies) {
      return in_any_parts({rows, 4 * count_of(frequencies)}, [&](cpu::Out out, cpu::Part part) { cpu::grid_angles(rows, columns, frequencies, out, part); });
    },
    .qkv_grid_rope = [](const FloatRows& qkv, const FloatRows& angles, const std::vector<float>& q_norm, const std::vector<float>& k_norm) {
      const int rows = count_of(qkv), width = count_of(qkv[0]), d = count_of(q_norm);
      const RowBuffer in(qkv), turns(angles);
      return in_any_parts({rows, width}, [&](cpu::Out out, cpu::Part part) {
        cpu::qkv_grid_rope(rows, in.in(), turns.in(), q_norm.data(), k_norm.data(), width / 3 / d, d, kEpsilon, out, part);
      });
    },
    .pool = [](const FloatRows& x, int columns, int side, float scale, const std::vector<float>& bias, const std::vector<float>& factor) {
      const int cells = count_of(x) / side / side, n = count_of(x[0]);
      const RowBuffer in(x);
      return in_any_parts({cells, n}, [&](cpu::Out out, cpu::Part part) {
        cpu::pool(cells, columns, side, in.in(), data_of(bias), data_of(factor), n, scale, out, part);
      });
    },
    .layer_norm = [](const FloatRows& x, const std::vector<float>& weight, const std::vector<float>& bias, float epsilon) {
      const int rows = count_of(x), n = count_of(weight);
      const RowBuffer in(x);
      return in_any_parts({rows, n}, [&](cpu::Out out, cpu::Part part) {
        cpu::layer_norm(rows, in.in(), weight.data(), bias.data(), n, epsilon, out, part);
      });
    },
    .add_norm = [](const FloatRows& h, const FloatRows& y, const std::vector<float>& weight) {
      const int rows = count_of(h), n = count_of(h[0]);
      const RowBuffer in(y);
      RowBuffer normed(rows, n);
      FloatRows all = in_any_parts(RowBuffer(h), [&](cpu::Out out, cpu::Part part) {
        cpu::add_norm(rows, out, in.in(), data_of(weight), n, kEpsilon, weight.empty() ? cpu::Out{} : normed.out(), part);
      });
      if (!weight.empty()) append_rows(all, normed.rows());
      return all;
    },
    .rms = [](const FloatRows& x) {
      const int rows = count_of(x), n = count_of(x[0]);
      const RowBuffer in(x);
      return in_any_parts({rows, n}, [&](cpu::Out out, cpu::Part part) { cpu::rms_norm(rows, in.in(), nullptr, n, kEpsilon, out, part); });
    },
    .residual_part = [](const FloatRows& h, const FloatRows& y, const std::vector<float>& weight, float part_of_update) {
      const RowBuffer in(y);
      return in_any_parts(RowBuffer(h), [&](cpu::Out out, cpu::Part part) {
        cpu::residual_norm(count_of(h), out, in.in(), weight.data(), nullptr, count_of(weight), kEpsilon, {}, part, part_of_update);
      });
    },
    .conv_norm_relu = [](const FloatRows& x, int bands, const FloatRows& taps, const std::vector<float>& norm) {
      const int frames = count_of(x), channels = count_of(norm), inputs = count_of(x[0]) / bands;
      const RowBuffer in(x);
      const std::vector<float> weights = joined(taps);
      return in_any_parts({(frames - 1) / 2 + 1, bands / 2 * channels}, [&](cpu::Out out, cpu::Part part) {
        cpu::conv_norm_relu(frames, bands, inputs, channels, in.in(), weights.data(), norm.data(), kEpsilon, out, part);
      });
    },
    .distance_waves = [](int rows, const std::vector<float>& frequencies) {
      return in_any_parts({rows, 2 * count_of(frequencies)}, [&](cpu::Out out, cpu::Part part) { cpu::distance_waves(rows, frequencies, out, part); });
    },
    .local_attention = [](const FloatRows& qkv, const FloatRows& relative, const std::vector<float>& dim_scale, const reference::LocalAttention& shape) {
      const RowBuffer in(qkv), distances(relative);
      const cpu::LocalAttention same{shape.heads, shape.head_dim, shape.window, static_cast<float>(shape.query_scale), static_cast<float>(shape.key_scale),
                                     static_cast<float>(shape.cap)};
      return in_any_parts({count_of(qkv), shape.heads * shape.head_dim}, [&](cpu::Out out, cpu::Part part) {
        cpu::local_attention(count_of(qkv), in.in(), distances.in(), dim_scale.data(), same, out, part);
      });
    },
    .glu_conv = [](const FloatRows& x, const FloatRows& taps, const std::vector<float>& norm) {
      const RowBuffer in(x);
      const std::vector<float> weights = joined(taps);
      return in_any_parts({count_of(x), count_of(norm)}, [&](cpu::Out out, cpu::Part part) {
        cpu::glu_conv(count_of(x), in.in(), weights.data(), count_of(taps), norm.data(), count_of(norm), kEpsilon, out, part);
      });
    },
};

const suite<"kernels of vision"> vision = [] { test_vision_kernels(kKernels); };
const suite<"kernels of audio"> audio = [] { test_audio_kernels(kKernels); };

// A way to multiply: rows, a product, what is in the output before, parts -> what is there after.
using Multiply = std::function<FloatRows(const FloatRows&, const cpu::TowerProduct&, const FloatRows&, int)>;

Multiply multiply_f32(const cpu::FloatProducts& products) {
  return [&products](const FloatRows& x, const cpu::TowerProduct& product, const FloatRows& before, int parts) {
    const RowBuffer in(x);
    RowBuffer out(before);
    in_parts(parts, [&](cpu::Part part) {
      std::vector<float> room(static_cast<std::size_t>(cpu::kMaxLines) * product.weight->cols);
      cpu::multiply_f32(products, count_of(x), in.in(), product, out.out(), room.data(), part);
    });
    return out.rows();
  };
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
      for (const auto& [rows, n, k] : {std::array{1, 1, 64}, {3, 9, 128}, {8, 64, 64}, {17, 70, 192}, {261, 300, 64}})
        for (const bool clipped : {false, true})
          for (const cpu::Finish finish : {cpu::Finish::store, cpu::Finish::add, cpu::Finish::silu, cpu::Finish::gelu_mul}) {
            const RandomMatrix weights(random, storage, n, k);
            link::Matrix matrix = weights.view();
            if (clipped) matrix.clip = clip;
            const FloatRows x = random_rows(random, rows, k), before = random_rows(random, rows, n);
            const std::vector<float> bias = random.floats(n, -1, 1);
            const FloatRows got = multiply(x, {&matrix, finish, bias.data()}, before, 2);
            const Table whole = table_of(matrix);
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
      for (const int count : {1, 2, 7, 8, 9, 63, 64, 65, 130, 255, 256, 257, 1100}) {
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
  test_products("float32", multiply_f32(*cpu::best_instructions().float_products),
                {bf16, {Encoding::plain, DType::f32, 32, 0}, {Encoding::affine, DType::bf16, 4, 64}}, false);
  for (const cpu::Instructions& instructions : cpu::all_instructions())
    if (instructions.here && instructions.tower_products) {
      test_products(std::string(instructions.name), multiply_packed(*instructions.tower_products), {bf16}, true);
      test_attention(std::string(instructions.name), *instructions.tower_attention);
    }
};

}  // namespace
}  // namespace lapidary::test::tower_test
