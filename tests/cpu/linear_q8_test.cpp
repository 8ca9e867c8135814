// The products of the fast mode, op by op: near their definitions, and every row the same among any others.
#include "cpu/linear_q8.hpp"

#include <array>
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "cpu/maxima.hpp"
#include "cpu/q8_weights.hpp"
#include "reference/linear.hpp"
#include "reference/q8.hpp"
#include "support/emulated.hpp"
#include "support/linear_tolerance.hpp"

namespace lapidary::test::linear_q8_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using IdRows = std::vector<std::vector<std::int32_t>>;

const int kWide = is_emulated() ? 640 : 2816;

// A storage whose activations are quantised in another way, in other groups.
Storage other(const Storage& storage) {
  return {Encoding::affine, DType::bf16, static_cast<std::uint8_t>(reference::is_paired(storage) ? 8 : 4),
          static_cast<std::uint8_t>(storage.group == 64 ? 32 : 64)};
}

// Room of one thread, full of rubbish, no larger than it must be.
class Room {
 public:
  Room(std::span<const cpu::Q8Matrix> weights, int outputs)
      : q_(cpu::tile_bytes(weights[0].matrix->cols), 0x55),
        factors_(cpu::tile_floats(most_groups(weights)), kUntouched),
        products_(static_cast<std::size_t>(outputs + 3) * (cpu::kTileRows - 1) + outputs, kUntouched),
        stride_(outputs + 3) {}

  cpu::Q8Room get() {
    return {.q = q_.data(), .factors = factors_.data(), .products = products_.data(), .output_stride = stride_};
  }

 private:
  static int most_groups(std::span<const cpu::Q8Matrix> weights) {
    int most = 0;
    for (const cpu::Q8Matrix& weight : weights) most = std::max(most, weight.matrix->cols / weight.matrix->storage.group);
    return most;
  }

  std::vector<std::int8_t> q_;
  std::vector<float> factors_, products_;
  std::size_t stride_;
};

// Calls compute(rows, x, out, room, part) for each part, with a room of its own.
template <class Compute>
FloatRows compute_in_parts(const FloatRows& x, const std::vector<cpu::Q8Matrix>& weights, int outputs, int parts, Compute compute) {
  const int rows = static_cast<int>(x.size());
  const RowBuffer in(x);
  RowBuffer out(rows, outputs);
  in_parts(parts, [&](cpu::Part part) {
    Room room(weights, outputs);
    compute(rows, in.in(), out.out(), room.get(), part);
  });
  return out.rows();
}

FloatRows linear(const FloatRows& x, const std::vector<cpu::Q8Matrix>& weights, int parts = 1) {
  int outputs = 0;
  for (const cpu::Q8Matrix& weight : weights) outputs += weight.matrix->rows;
  return compute_in_parts(x, weights, outputs, parts,
                          [&](int rows, cpu::In in, cpu::Out out, const cpu::Q8Room& room, cpu::Part part) {
                            cpu::linear_q8(rows, in, weights, out, room, part);
                          });
}

// The same, the rows being quantised by all parts together.
FloatRows linear_together(const FloatRows& x, const cpu::Q8Matrix& weight, int parts) {
  Room common(std::span(&weight, 1), weight.matrix->rows);
  const RowBuffer in(x);
  cpu::Q8Tile tile;
  in_parts(parts, [&](cpu::Part part) {
    tile = cpu::quantise_together(static_cast<int>(x.size()), in.in(), weight, common.get(), part);
  });
  return compute_in_parts(x, {weight}, weight.matrix->rows, parts,
                          [&](int rows, cpu::In, cpu::Out out, cpu::Q8Room room, cpu::Part part) {
                            room.ready = &tile;
                            cpu::linear_q8(rows, {}, std::span(&weight, 1), out, room, part);
                          });
}

FloatRows linear_gelu_mul(const FloatRows& x, const cpu::Q8Matrix& gate, const cpu::Q8Matrix& up, int parts = 1) {
  return compute_in_parts(x, {gate, up}, gate.matrix->rows, parts,
                          [&](int rows, cpu::In in, cpu::Out out, const cpu::Q8Room& room, cpu::Part part) {
                            cpu::linear_gelu_mul_q8(rows, in, gate, up, out, room, part);
                          });
}

FloatRows linear_gelu_gate(const FloatRows& x, const cpu::Q8Matrix& weight, const FloatRows& factor, int parts = 1) {
  const RowBuffer factors(factor);
  return compute_in_parts(x, {weight}, weight.matrix->rows, parts,
                          [&](int rows, cpu::In in, cpu::Out out, const cpu::Q8Room& room, cpu::Part part) {
                            cpu::linear_gelu_gate_q8(rows, in, weight, factors.in(), out, room, part);
                          });
}

// What it finds of each stretch must be its largest output. A thread writes at most eight stretches of a row that end elsewhere.
void expect_maxima(const FloatRows& y, const FloatRows& maxima, int parts) {
  for (std::size_t r = 0; r < y.size(); ++r) {
    const int n = count_of(y[r]), length = cpu::stretch_length(n);
    int unknown = 0;
    for (int begin = 0; begin < n; begin += length) {
      const float found = maxima[r][begin / length];
      if (std::isnan(found)) ++unknown;
      else expect(found == *std::max_element(y[r].begin() + begin, y[r].begin() + std::min(n, begin + length)));
    }
    expect(unknown <= 8 * parts) << unknown << "of" << n << "outputs in stretches of" << length;
  }
}

FloatRows linear_softcap(const FloatRows& x, const cpu::Q8Matrix& weight, float cap, int parts = 1) {
  RowBuffer maxima(count_of(x), cpu::kMaxStretches);
  const FloatRows y = compute_in_parts(x, {weight}, weight.matrix->rows, parts,
                                       [&](int rows, cpu::In in, cpu::Out out, const cpu::Q8Room& room, cpu::Part part) {
                                         cpu::linear_softcap_q8(rows, in, weight, cap, out, maxima.out(), room, part);
                                       });
  expect_maxima(y, maxima.rows(), parts);
  return y;
}

FloatRows expert_gelu_mul(const FloatRows& x, const IdRows& ids, const cpu::Q8Matrix& gate, const cpu::Q8Matrix& up,
                          int parts = 1) {
  const int used = static_cast<int>(ids.front().size());
  const IdBuffer picked(ids);
  return compute_in_parts(x, {gate, up}, used * gate.matrix->rows, parts,
                          [&](int rows, cpu::In in, cpu::Out out, const cpu::Q8Room& room, cpu::Part part) {
                            cpu::expert_gelu_mul_q8(rows, in, picked.in(), used, gate, up, out, room, part);
                          });
}

FloatRows expert_linear(const FloatRows& x, const IdRows& ids, const cpu::Q8Matrix& weight, int parts = 1) {
  const int used = static_cast<int>(ids.front().size());
  const IdBuffer picked(ids);
  return compute_in_parts(x, {weight}, used * weight.matrix->rows, parts,
                          [&](int rows, cpu::In in, cpu::Out out, const cpu::Q8Room& room, cpu::Part part) {
                            cpu::expert_linear_q8(rows, in, picked.in(), used, weight, out, room, part);
                          });
}

// ---- definitions

using Product = reference::Q8Product;

void append(Product& all, const Product& some) {
  all.values.insert(all.values.end(), some.values.begin(), some.values.end());
  all.errors.insert(all.errors.end(), some.errors.begin(), some.errors.end());
}

Product gelu_mul(const Product& gate, const Product& up) {
  Product product{{}, gelu_mul_errors(gate.values, gate.errors, up.values, up.errors)};
  for (std::size_t i = 0; i < gate.values.size(); ++i)
    product.values.push_back(reference::gelu(gate.values[i]) * up.values[i]);
  return product;
}

Product softcap(const Product& product, double cap) {
  Product capped{{}, softcap_errors(product.errors, cap)};
  for (const double value : product.values) capped.values.push_back(reference::softcap(value, cap));
  return capped;
}

double error_of(const std::vector<float>& got, const Product& expected) {
  return worst_error(got, expected.values, expected.errors);
}

suite<"linear_q8"> linear_suite = [] {
  for (const Storage& storage : q8_storages()) {
    test("linear_q8 of " + label(storage) + " is near its definition") = [storage] {
      Random random(1);
      for (const int k : {128, 192, 704, kWide}) {
        if (!fits(storage, k)) continue;
        const Weights weights(random, storage, 11, k);
        for (const int rows : {1, 2, 8, 9, 19}) {
          const FloatRows x = random_rows(random, rows, k), y = linear(x, {weights.view()});
          for (int r = 0; r < rows; ++r)
            expect(error_of(y[r], reference::q8_product(weights.matrix, x[r])) <= 1.0_d)
                << "K =" << k << "row" << r << "of" << rows;
        }
      }
    };

    test("linear_gelu_mul_q8, linear_gelu_gate_q8 and linear_softcap_q8 of " + label(storage) +
         " are near their definitions") = [storage] {
      Random random(2);
      for (const int k : {256, kWide}) {
        const int n = 13;
        const Weights gate(random, storage, n, k), same(random, storage, n, k), up(random, other(storage), n, k);
        for (const int rows : {1, 2, 3, 11}) {
          const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), factor = random_rows(random, rows, n);
          const FloatRows of_same = linear_gelu_mul(x, gate.view(), same.view());
          const FloatRows of_other = linear_gelu_mul(x, gate.view(), up.view());
          const FloatRows gated = linear_gelu_gate(x, gate.view(), factor);
          const FloatRows capped = linear_softcap(x, gate.view(), 3.0f);
          for (int r = 0; r < rows; ++r) {
            const Product g = reference::q8_product(gate.matrix, x[r]);
            expect(error_of(of_same[r], gelu_mul(g, reference::q8_product(same.matrix, x[r]))) <= 1.0_d)
                << "linear_gelu_mul of one storage, K =" << k << "row" << r << "of" << rows;
            expect(error_of(of_other[r], gelu_mul(g, reference::q8_product(up.matrix, x[r]))) <= 1.0_d)
                << "linear_gelu_mul of two storages, K =" << k << "row" << r << "of" << rows;
            expect(error_of(gated[r], gelu_mul(g, {doubles(factor[r]), std::vector<double>(n)})) <= 1.0_d)
                << "linear_gelu_gate, K =" << k << "row" << r << "of" << rows;
            expect(error_of(capped[r], softcap(g, 3.0)) <= 1.0_d)
                << "linear_softcap, K =" << k << "row" << r << "of" << rows;
          }
        }
      }
    };

    test("rows for " + label(storage) + " are the same quantised by all parts together") = [storage] {
      Random random(5);
      for (const int k : {384, 2816}) {
        const Weights weights(random, storage, 23, k);
        for (int rows = 1; rows <= cpu::kTileRows; ++rows) {
          const FloatRows x = random_rows(random, rows, k), y = linear(x, {weights.view()});
          for (const int parts : {2, 3}) {
            const FloatRows together = linear_together(x, weights.view(), parts);
            for (int r = 0; r < rows; ++r) expect(same_bits(together[r], y[r])) << "K =" << k << rows << "rows" << parts << "parts";
          }
        }
      }
    };

    test("rows are quantised together only for weights of one format such as " + label(storage)) = [storage] {
      Random random(6);
      const std::vector<Weights> weights = [&] {
        std::vector<Weights> all;
        for (const Storage& one : {storage, storage, other(storage)}) all.emplace_back(random, one, 4, 2816);
        return all;
      }();
      const cpu::Q8Matrix all[] = {weights[0].view(), weights[1].view(), weights[2].view()};
      expect(cpu::quantises_together(1, std::span(all).first(2), {0, 2}));
      expect(!cpu::quantises_together(1, all, {0, 2}));
      expect(!cpu::quantises_together(1, std::span(all).first(2), {0, 1}));
      expect(!cpu::quantises_together(9, std::span(all).first(2), {0, 2}));
    };

    test("products of the fast mode of " + label(storage) + " give a row the same bits among any others") = [storage] {
      Random random(3);
      for (const int n : {7, 70}) {
        const int k = 256, rows = 67;
        const Weights gate(random, storage, n, k), up(random, other(storage), n, k);
        const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), factor = random_rows(random, rows, n);
        expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
          return linear(gather(x, numbers), {gate.view(), up.view()}, parts);
        });
        expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
          return linear_gelu_mul(gather(x, numbers), gate.view(), up.view(), parts);
        });
        expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
          return linear_gelu_gate(gather(x, numbers), gate.view(), gather(factor, numbers), parts);
        });
        expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
          return linear_softcap(gather(x, numbers), gate.view(), 3.0f, parts);
        });
      }
    };

    test("linear_q8 of " + label(storage) + " gives a row the same bits in the widest products") = [storage] {
      Random random(4);
      for (const int k : {5376, 21504}) {
        const Weights weights(random, storage, 5, k);
        const FloatRows x = random_rows(random, 8, k);
        expect_rows_independent(random, 8, [&](const std::vector<int>& numbers, int parts) {
          return linear(gather(x, numbers), {weights.view()}, parts);
        });
      }
    };
  }

  "linear_q8 of several weights equals the products of each, one after the other, whatever their formats"_test = [] {
    Random random(5);
    const int k = 1536;
    // The second three share what is quantised.
    using Three = std::array<Storage, 3>;
    const auto affine = [](std::uint8_t bits, std::uint8_t group) { return Storage{Encoding::affine, DType::bf16, bits, group}; };
    for (const Three& three : {Three{affine(4, 64), affine(8, 64), affine(4, 32)}, Three{affine(6, 64), affine(8, 64), affine(3, 64)}}) {
      const Weights q(random, three[0], 21, k), key(random, three[1], 9, k), value(random, three[2], 5, k);
      for (const int rows : {1, 6, 12}) {
        const FloatRows x = random_rows(random, rows, k);
        const FloatRows of_q = linear(x, {q.view()}), of_key = linear(x, {key.view()}), of_value = linear(x, {value.view()});
        for (const int parts : {1, 2, 3, 5}) {
          const FloatRows two = linear(x, {q.view(), key.view()}, parts);
          const FloatRows three = linear(x, {q.view(), key.view(), value.view()}, parts);
          for (int r = 0; r < rows; ++r) {
            std::vector<float> expected = of_q[r];
            expected.insert(expected.end(), of_key[r].begin(), of_key[r].end());
            expect(same_bits(two[r], expected)) << "two weights in" << parts << "parts, row" << r << "of" << rows;
            expected.insert(expected.end(), of_value[r].begin(), of_value[r].end());
            expect(same_bits(three[r], expected)) << "three weights in" << parts << "parts, row" << r << "of" << rows;
          }
        }
        Product all = reference::q8_product(q.matrix, x[0]);
        append(all, reference::q8_product(key.matrix, x[0]));
        append(all, reference::q8_product(value.matrix, x[0]));
        expect(error_of(linear(x, {q.view(), key.view(), value.view()}).front(), all) <= 1.0_d);
      }
    }
  };

  "rows are quantised together for weights of several formats and one form"_test = [] {
    Random random(6);
    const Weights six(random, {Encoding::affine, DType::bf16, 6, 64}, 4, 2816);
    const Weights eight(random, {Encoding::affine, DType::bf16, 8, 64}, 4, 2816);
    const Weights four(random, {Encoding::affine, DType::bf16, 4, 64}, 4, 2816);
    const cpu::Q8Matrix plain[] = {six.view(), eight.view()}, both[] = {eight.view(), four.view()};
    expect(cpu::quantises_together(1, plain, {0, 2}));
    expect(!cpu::quantises_together(1, both, {0, 2}));
  };

  "linear_q8 computes every output of every published height in any number of parts"_test = [] {
    Random random(6);
    const int k = 64;
    for (const int n :
         {1, 2, 3, 128, 256, 512, 704, 1024, 1536, 2112, 2560, 2816, 3840, 5376, 8960, 10752, 16384, 21504, 262144}) {
      const Weights weights(random, {Encoding::affine, DType::bf16, 4, 64}, n, k);
      const FloatRows x = random_rows(random, 2, k), whole = linear(x, {weights.view()});
      for (const int parts : {2, 3, 7}) {
        const FloatRows split = linear(x, {weights.view()}, parts);
        for (int r = 0; r < 2; ++r) expect(same_bits(split[r], whole[r])) << "N =" << n << "in" << parts << "parts";
      }
      const reference::Vector left = reference::quantised(x[0], weights.matrix.storage);
      for (const int row : {0, n / 3, n / 2, n - 1})
        expect(std::abs(whole[0][row] - reference::dot(reference::dequantise_row(weights.matrix, row), left)) <= 1e-4)
            << "row" << row << "of" << n;
    }
  };

  "linear_softcap_q8 without a cap is linear_q8"_test = [] {
    Random random(7);
    const Weights weights(random, {Encoding::affine, DType::bf16, 8, 64}, 33, 256);
    const FloatRows x = random_rows(random, 11, 256);
    const FloatRows y = linear(x, {weights.view()}), capped = linear_softcap(x, weights.view(), 0.0f);
    for (std::size_t r = 0; r < x.size(); ++r) expect(same_bits(capped[r], y[r]));
  };

  "linear_softcap_q8 finds the largest outputs of a vocabulary"_test = [] {
    Random random(9);
    const Weights weights(random, {Encoding::affine, DType::bf16, 4, 64}, 20011, 64);
    const FloatRows x = random_rows(random, 9, 64);
    for (const int parts : {1, 2, 3}) linear_softcap(x, weights.view(), 30.0f, parts);
  };
};

constexpr int kExperts = 7, kUsed = 3;

std::vector<std::int32_t> pick_experts(Random& random, int used, int experts) {
  const auto picked = random.pick(used, experts);
  return {picked.begin(), picked.end()};
}

// Half of the rows pick the same experts, the others any.
IdRows some_ids(Random& random, int rows) {
  IdRows ids;
  for (int r = 0; r < rows; ++r)
    ids.push_back(r % 2 ? std::vector<std::int32_t>{4, 2, 6} : pick_experts(random, kUsed, kExperts));
  return ids;
}

suite<"experts q8"> expert_suite = [] {
  for (const Storage& storage : q8_storages()) {
    test("expert_gelu_mul_q8 of " + label(storage) +
         " is near its definition and equals linear_gelu_mul_q8 to the bit") = [storage] {
      Random random(8);
      for (const auto& [n, k] : {std::pair{11, kWide}, std::pair{9, 256}}) {
        const Weights gate(random, storage, n, k, kExperts), up(random, other(storage), n, k, kExperts);
        const FloatRows x = random_rows(random, 3, k, -0.2, 0.2);
        const IdRows ids = {{kExperts - 1, 0, 3}, {3, 0, 1}, {0, 3, kExperts - 1}};
        const FloatRows got = expert_gelu_mul(x, ids, gate.view(), up.view(), 2);
        for (std::size_t r = 0; r < x.size(); ++r) {
          Product expected;
          std::vector<float> by_matrix;
          for (const std::int32_t id : ids[r]) {
            append(expected, gelu_mul(reference::q8_product(gate.matrix, x[r], id),
                                      reference::q8_product(up.matrix, x[r], id)));
            const link::Matrix one_gate = gate.expert(id), one_up = up.expert(id);
            const auto row = linear_gelu_mul({x[r]}, {*gate.kernels, one_gate, gate.scales.data() + id * cpu::scale_words(*gate.kernels, one_gate)},
                                             {*up.kernels, one_up, up.scales.data() + id * cpu::scale_words(*up.kernels, one_up)});
            by_matrix.insert(by_matrix.end(), row.front().begin(), row.front().end());
          }
          expect(error_of(got[r], expected) <= 1.0_d) << "K =" << k << "row" << r;
          expect(same_bits(got[r], by_matrix)) << "K =" << k << "row" << r;
        }
      }
    };

    test("expert_linear_q8 of " + label(storage) + " is near its definition and equals linear_q8 to the bit") = [storage] {
      Random random(9);
      for (const auto& [n, k] : {std::pair{11, 704}, std::pair{23, 128}}) {
        if (!fits(storage, k)) continue;
        const Weights weights(random, storage, n, k, kExperts);
        const FloatRows x = random_rows(random, 3, k * kUsed);
        const IdRows ids = {{kExperts - 1, 0, 3}, {3, 0, 1}, {0, 3, kExperts - 1}};
        const FloatRows got = expert_linear(x, ids, weights.view(), 2);
        for (std::size_t r = 0; r < x.size(); ++r) {
          Product expected;
          std::vector<float> by_matrix;
          for (int slot = 0; slot < kUsed; ++slot) {
            const std::vector<float> input(x[r].begin() + slot * k, x[r].begin() + (slot + 1) * k);
            const std::int32_t id = ids[r][slot];
            append(expected, reference::q8_product(weights.matrix, input, id));
            const link::Matrix one = weights.expert(id);
            const auto row = linear({input}, {{*weights.kernels, one, weights.scales.data() + id * cpu::scale_words(*weights.kernels, one)}}).front();
            by_matrix.insert(by_matrix.end(), row.begin(), row.end());
          }
          expect(error_of(got[r], expected) <= 1.0_d) << "K =" << k << "row" << r;
          expect(same_bits(got[r], by_matrix)) << "K =" << k << "row" << r;
        }
      }
    };

    test("experts of " + label(storage) + " give a row the same bits, shared with other rows or not") = [storage] {
      Random random(10);
      const int k = 256, rows = 67;
      const FloatRows x = random_rows(random, rows, k, -0.2, 0.2), many = random_rows(random, rows, k * kUsed);
      const IdRows ids = some_ids(random, rows);
      for (const int n : {9, 64}) {
        const Weights gate(random, storage, n, k, kExperts), up(random, other(storage), n, k, kExperts);
        expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
          return expert_gelu_mul(gather(x, numbers), gather(ids, numbers), gate.view(), up.view(), parts);
        });
        expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
          return expert_linear(gather(many, numbers), gather(ids, numbers), gate.view(), parts);
        });
      }
    };
  }

  "experts give 1 to 20 rows, some of them twice, the same bits as each alone"_test = [] {
    Random random(11);
    const int n = 10, k = 128;
    const Weights gate(random, {Encoding::affine, DType::bf16, 4, 64}, n, k, kExperts);
    const Weights up(random, {Encoding::affine, DType::bf16, 4, 64}, n, k, kExperts);
    for (int rows = 1; rows <= 20; ++rows) {
      FloatRows x = random_rows(random, rows, k, -0.2, 0.2), many = random_rows(random, rows, k * kUsed);
      IdRows ids = some_ids(random, rows);
      for (int r = 2; r < rows; r += 3) {
        x[r] = x[r - 2];
        many[r] = many[r - 2];
        ids[r] = ids[r - 2];
      }
      for (const int parts : {1, 2, 3, 7}) {
        const FloatRows product = expert_gelu_mul(x, ids, gate.view(), up.view(), parts);
        const FloatRows projected = expert_linear(many, ids, gate.view(), parts);
        for (int r = 0; r < rows; ++r) {
          expect(same_bits(product[r], expert_gelu_mul({x[r]}, {ids[r]}, gate.view(), up.view()).front()))
              << "expert_gelu_mul, row" << r << "of" << rows << "in" << parts << "parts";
          expect(same_bits(projected[r], expert_linear({many[r]}, {ids[r]}, gate.view()).front()))
              << "expert_linear, row" << r << "of" << rows << "in" << parts << "parts";
        }
      }
    }
  };

  "experts give a row the same bits in a chunk of hundreds of rows"_test = [] {
    Random random(12);
    const int n = 6, k = 64, rows = 259, experts = 9, used = 8;  // more picks than are sorted at once
    const Weights weights(random, {Encoding::affine, DType::bf16, 4, 64}, n, k, experts);
    const FloatRows x = random_rows(random, rows, k * used);
    IdRows ids;
    for (int r = 0; r < rows; ++r) ids.push_back(pick_experts(random, used, experts));
    expect_rows_independent(random, rows, [&](const std::vector<int>& numbers, int parts) {
      return expert_linear(gather(x, numbers), gather(ids, numbers), weights.view(), parts);
    });
  };
};

}  // namespace
}  // namespace lapidary::test::linear_q8_test
