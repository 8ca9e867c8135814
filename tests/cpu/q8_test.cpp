// The kernels of the fast mode and what they sweep over; every set of instructions that this processor has.
#include "cpu/q8.hpp"

#include <bit>
#include <boost/ut.hpp>
#include <span>

#include "cpu/kernel_rows.hpp"
#include "cpu/q8_weights.hpp"
#include "reference/q8.hpp"
#include "support/emulated.hpp"
#include "support/guarded.hpp"
#include "support/published_widths.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::q8_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

// Outputs of all products in the published models.
const std::vector<int> kPublishedHeights = {128,  256,  512,  704,  1024,  1536,  2112,  2560,
                                            2816, 3840, 5376, 8960, 10752, 16384, 21504, 262144};

std::vector<const cpu::Q8Kernels*> all_kernels() {
  std::vector<const cpu::Q8Kernels*> all;
  for (const cpu::Instructions& instructions : cpu::all_instructions())
    if (instructions.here) all.push_back(instructions.products);
  if (is_emulated()) return {all.back()};
  return all;
}

std::vector<int> all_widths() {
  if (is_emulated()) return {32, 96, 192, 704, 5376};
  std::vector<int> widths = kPublishedWidths;
  widths.insert(widths.end(), kSmallWidths.begin(), kSmallWidths.end());
  return widths;
}

// From one number of rows to the next, where all are multiplied with much else.
int next_rows() { return is_emulated() ? cpu::kTileRows - 1 : 1; }

// x: at most kTileRows. The room holds rubbish and ends where it may end.
FloatRows multiply(const cpu::Q8Kernels& kernels, const cpu::Q8Weights& w, const FloatRows& x, cpu::Range steps) {
  const int rows = static_cast<int>(x.size());
  const RowBuffer in(x);
  RowBuffer out(rows, w.rows);
  std::vector<const float*> from;
  std::vector<float*> to;
  for (int r = 0; r < rows; ++r) {
    from.push_back(in.in()[r]);
    to.push_back(out.out()[r]);
  }
  std::vector<std::int8_t> q(cpu::tile_bytes(w.cols), 0x55);
  std::vector<float> factors(cpu::tile_floats(w.cols / w.format.group), kUntouched);
  const cpu::Q8Tile tile{.form = w.format.form(), .rows = rows, .cols = w.cols, .q = q.data(), .factors = factors.data()};
  const int groups = w.cols / w.format.group;
  kernels.quantise(from.data(), tile, {groups / 3, groups});  // in any order, together they are the whole
  kernels.quantise(from.data(), tile, {0, groups / 3});
  kernels.multiply(w, tile, to.data(), steps);
  return out.rows();
}

FloatRows multiply(const cpu::Q8Kernels& kernels, const cpu::Q8Weights& w, const FloatRows& x) {
  return multiply(kernels, w, x, {0, w.sweep.steps()});
}

void expect_near_definition(Weights& weights, const FloatRows& x, const std::string& what) {
  std::vector<reference::Q8Product> expected;
  for (const auto& row : x) expected.push_back(reference::q8_product(weights.matrix, row));
  for (const cpu::Q8Kernels* kernels : all_kernels()) {
    weights.lay_out_for(*kernels);
    const FloatRows y = multiply(*kernels, weights.view().weights(), x);
    for (std::size_t r = 0; r < x.size(); ++r)
      expect(worst_error(y[r], expected[r].values, expected[r].errors) <= 1.0_d)
          << kernels->name << what << "N =" << weights.matrix.rows << "K =" << weights.matrix.cols << "row" << r;
  }
}

bool all_nan(const std::vector<float>& row) {
  return std::all_of(row.begin(), row.end(), [](float x) { return std::isnan(x) && !is_untouched(x); });
}

// ---- rows that are hard to quantise

struct Awkward {
  std::string what;
  std::vector<float> x;
};

// Every number but the first of a group lies between two steps, as far from the one as from the other.
std::vector<float> ties(Random& random, int cols, const Storage& storage) {
  std::vector<float> x;
  const auto tie = [&] { return static_cast<float>(random.below(253) - 126) + 0.5f; };  // -125.5 to 126.5
  for (int i = 0; i < cols; i += 2) {
    const bool first = i % storage.group == 0;  // makes a step 1
    const float odd = first ? 127.0f : tie();
    x.push_back(!reference::is_paired(storage) ? tie() : std::nearbyint(odd) / 16 + (first ? 0.0f : tie()));
    x.push_back(odd);
  }
  return x;
}

std::vector<Awkward> awkward_rows(Random& random, int cols, const Storage& storage) {
  std::vector<Awkward> all;
  const auto random_row = [&](double size) { return random.floats(cols, -size, size); };
  all.push_back({"zeros", std::vector<float>(cols, 0.0f)});
  all.push_back({"zeros of both signs", random_row(1e-60)});
  all.push_back({"ties", ties(random, cols, storage)});
  all.push_back({"small numbers", random_row(1e-30)});
  all.push_back({"numbers whose steps are no normal numbers", random_row(1e-36)});
  all.push_back({"the largest numbers below those with an inverse", random_row(3.7e-37)});
  all.push_back({"denormals", random_row(1e-39)});
  Awkward sparse{"denormals and zeros", random_row(1e-39)};
  for (float& x : sparse.x)
    if (random.chance(2)) x = 0.0f;
  all.push_back(std::move(sparse));
  all.push_back({"the least number", std::vector<float>(cols, 0x1p-149f)});
  all.push_back({"large numbers", random_row(1e30)});
  all.push_back({"the largest dots", std::vector<float>(cols, 0.7f)});
  all.push_back({"the least dots", std::vector<float>(cols, -0.7f)});
  std::vector<float> signs = random_row(1.0);
  for (float& x : signs) x = std::copysign(1.0f, x);
  all.push_back({"one size, any signs", std::move(signs)});
  for (const int at : {0, 1, cols - 2, cols - 1})
    for (const float outlier : {1e4f, -1e12f}) {
      Awkward row{"an outlier", random_row(1.0)};
      row.x[at] = outlier;
      all.push_back(std::move(row));
    }
  Awkward gap{"a group of zeros", random_row(1.0)}, alone{"all but a group zeros", std::vector<float>(cols, 0.0f)};
  const int begin = random.below(cols / storage.group) * storage.group;
  for (int i = begin; i < begin + storage.group; ++i) std::swap(gap.x[i], alone.x[i]);
  Awkward mixed{"a group of denormals", gap.x};
  for (int i = begin; i < begin + storage.group; ++i) mixed.x[i] = static_cast<float>(random.uniform(-1e-40, 1e-40));
  all.insert(all.end(), {std::move(gap), std::move(alone), std::move(mixed)});
  return all;
}

constexpr cpu::Order kOrders[] = {cpu::Order::neighbours, cpu::Order::quarters};

suite<"q8 sweep"> walk_suite = [] {
  if (is_emulated()) return;
  std::vector<int> heights = kPublishedHeights;
  for (int rows = 1; rows <= 70; ++rows) heights.push_back(rows);

  "a sweep meets every row once"_test = [heights] {
    for (const int rows : heights)
      for (const int cols : {32, 256, 704, 1536, 2816, 5376, 16384, 21504})
        for (const cpu::Order order : kOrders) {
          const cpu::Sweep sweep(rows, cols, order);
          std::vector<int> met(rows);
          for (int step = 0; step < sweep.steps(); ++step)
            for (int stream = 0; stream < cpu::kStreams; ++stream) {
              const int row = sweep.row(step, stream);
              if (row >= 0 && row < rows) ++met[row];
            }
          expect(met == std::vector<int>(rows, 1)) << rows << "rows of" << cols;
          expect(eq(sweep.steps(), (rows + 3) / 4)) << rows << "rows of" << cols;
        }
  };

  "rows follow each other up to the next jump, and not there"_test = [heights] {
    for (const int rows : heights)
      for (const int cols : {32, 256, 704, 1536, 2816, 5376, 16384, 21504}) {
        const cpu::Sweep sweep(rows, cols, cpu::Order::quarters);
        const auto follows = [&](int step) {
          for (int stream = 0; stream < cpu::kStreams; ++stream)
            if (sweep.row(step, stream) != sweep.row(step - 1, stream) + 1) return false;
          return true;
        };
        int next = sweep.steps(), wrong = 0;
        for (int step = sweep.steps() - 1; step >= 0; --step) {
          wrong += sweep.next_jump(step) != next;
          if (step > 0 && !follows(step)) next = step;
        }
        expect(eq(wrong, 0)) << rows << "rows of" << cols;
      }
  };

  "the runs of some steps are the rows of those steps"_test = [heights] {
    Random random(1);
    for (const int rows : heights)
      for (const int cols : {32, 704, 1536, 16384})
        for (const cpu::Order order : kOrders) {
          const cpu::Sweep sweep(rows, cols, order);
          std::vector<cpu::Range> ranges = {{0, sweep.steps()}, {0, 0}, {sweep.steps(), sweep.steps()}};
          for (int i = 0; i < 12; ++i) {
            const int a = random.below(sweep.steps() + 1), b = random.below(sweep.steps() + 1);
            ranges.push_back({std::min(a, b), std::max(a, b)});
          }
          for (const cpu::Range& range : ranges) {
            std::vector<int> expected(rows), got(rows);
            for (int step = range.begin; step < range.end; ++step)
              for (int stream = 0; stream < cpu::kStreams; ++stream)
                if (sweep.row(step, stream) < rows) ++expected[sweep.row(step, stream)];
            bool inside = true;
            sweep.for_each_run(range, [&](int first, int count) {
              inside = inside && first >= 0 && count > 0 && first + count <= rows;
              for (int row = first; inside && row < first + count; ++row) ++got[row];
            });
            expect(inside && got == expected) << rows << "rows of" << cols << "steps" << range.begin << "to" << range.end;
          }
        }
  };
};

// bias | scale << 16 of a group in the row whose scales lie there; without biases half the scale, which is a float32 that ends in 0.
std::uint32_t word_of(const link::Matrix& matrix, std::size_t row, int group) {
  if (matrix.biases)
    return reference::bits_at(matrix.biases + row, 16 * group, 16) | reference::bits_at(matrix.scales + row, 16 * group, 16) << 16;
  const std::uint32_t code = reference::bits_at(matrix.scales + row, 8 * group, 8);
  const double scale = matrix.storage.encoding == Encoding::mxfp4 ? reference::e8m0(code) : reference::e4m3(code);
  return std::bit_cast<std::uint32_t>(static_cast<float>(scale / 2));
}

const Storage kMxfp4 = {Encoding::mxfp4, DType::u8, 4, 32}, kNvfp4 = {Encoding::nvfp4, DType::u8, 4, 16};

suite<"q8 weights"> weights_suite = [] {
  "the fast mode has kernels for affine weights with bf16 scales, mxfp4 and nvfp4"_test = [] {
    std::vector<std::string> has, expected;
    for (const Storage& storage : all_storages()) {
      link::Matrix matrix;
      matrix.storage = storage;
      if (cpu::has_q8(matrix)) has.push_back(label(storage));
    }
    for (const Storage& storage : q8_storages()) expected.push_back(label(storage));
    expect(has == expected);
  };

  if (!is_emulated()) "scales, biases and the sums that kernels want lie together in the order of the sweep, expert by expert"_test = [] {
    Random random(2);
    for (const cpu::Instructions& set : cpu::all_instructions())
      for (const Storage& storage : q8_storages())
        for (const int rows : {1, 2, 3, 4, 5, 11, 23, 64, 100})
          for (const int experts : {0, 3}) {
            const int cols = 384, groups = cols / storage.group;
            Weights weights(random, storage, rows, cols, experts);
            weights.lay_out_for(*set.products);
            const link::Matrix& matrix = weights.matrix;
            const bool sums = set.products->wants_sums && storage.bits == 4 && storage.group == 64;
            const int group_words = sums ? 6 : 4;
            const std::size_t words = cpu::scale_words(*set.products, matrix);
            expect(eq(words, static_cast<std::size_t>((rows + 3) / 4 * groups * group_words)));
            int wrong = 0;
            for (int expert = 0; expert < std::max(experts, 1); ++expert) {
              const cpu::Q8Weights view = weights.view().weights(expert);
              expect(view.scales == weights.scales.data() + expert * words);
              expect(view.values == matrix.values + expert * matrix.expert_bytes);
              for (int step = 0; step < view.sweep.steps(); ++step)
                for (int stream = 0; stream < cpu::kStreams; ++stream) {
                  const int row = view.sweep.row(step, stream);
                  if (row >= rows) continue;
                  const std::size_t at = expert * matrix.scale_expert_bytes + row * matrix.scale_row_bytes;
                  for (int g = 0; g < groups; ++g) {
                    const std::uint32_t* group = view.scales + (step * groups + g) * group_words;
                    wrong += group[stream] != word_of(matrix, at, g);
                    if (!sums) continue;
                    unsigned sum = 0;
                    for (int i = 0; i < 32; ++i) {
                      const auto byte = std::to_integer<unsigned>(view.values[row * matrix.row_bytes + g * 32 + i]);
                      sum += 17 * (byte & 15) + 16 * (byte >> 4);
                    }
                    wrong += (group[4 + stream / 2] >> 16 * (stream % 2) & 0xffff) != sum;
                  }
                }
            }
            expect(eq(wrong, 0)) << set.name << label(storage) << rows << "rows," << experts << "experts";
          }
  };

  "every scale of mxfp4 and nvfp4 is a product's, and those that are no finite numbers make it none"_test = [] {
    Random random(2);
    for (const Storage& storage : {kMxfp4, kNvfp4})
      for (int code = 0; code < 256; ++code) {
        Weights weights(random, storage, 4, storage.group);
        std::fill_n(weights.random_matrix.scales(), 4, static_cast<std::byte>(code));
        const bool finite = storage.encoding == Encoding::mxfp4 ? code != 255 : (code & 127) != 127;
        std::vector<float> x(storage.group, 0.0f);
        for (float& value : x) value = static_cast<float>(random.below(255) - 127);
        x[0] = 127.0f;
        for (const cpu::Q8Kernels* kernels : all_kernels()) {
          weights.lay_out_for(*kernels);
          const std::vector<float> y = multiply(*kernels, weights.view().weights(), {x}).front();
          for (int n = 0; n < 4; ++n) {
            double exact = 0.0;
            for (int col = 0; col < storage.group; ++col)
              exact += reference::e2m1(reference::bits_at(weights.matrix.values + n * weights.matrix.row_bytes, 4 * col, 4)) * x[col];
            if (storage.encoding == Encoding::mxfp4) exact *= reference::e8m0(code);
            else exact *= reference::e4m3(code);
            expect(finite ? y[n] == static_cast<float>(exact) : !std::isfinite(y[n])) << kernels->name << label(storage) << "scale" << code;
          }
        }
      }
  };
};

suite<"q8 kernels"> kernel_suite = [] {
  for (const Storage& storage : q8_storages()) {
    test("products of " + label(storage) + " are near their definition at every width") = [storage] {
      Random random(3);
      for (const int k : all_widths()) {
        if (!fits(storage, k)) continue;
        for (const int n : {k <= 2816 ? 23 : 5, k <= 2816 ? 24 : 8}) {
          Weights weights(random, storage, n, k);
          expect_near_definition(weights, random_rows(random, 1, k), "random row");
          expect_near_definition(weights, random_rows(random, 3, k), "random rows");
        }
      }
    };

    if (!is_emulated()) test("products of " + label(storage) + " are near their definition for any number of outputs and rows") = [storage] {
      Random random(4);
      for (const int n : {1, 2, 3, 4, 5, 11, 23, 100}) {
        Weights weights(random, storage, n, 384);
        for (int rows = 1; rows <= cpu::kTileRows; ++rows)
          expect_near_definition(weights, random_rows(random, rows, 384), "random rows");
      }
    };

    if (!is_emulated()) test("products of " + label(storage) + " are near their definition for awkward rows") = [storage] {
      Random random(5);
      for (const int k : {128, 640}) {
        Weights weights(random, storage, 7, k);
        for (const bool largest_codes : {false, true}) {
          if (largest_codes) weights.fill(std::byte{0xff});
          for (const Awkward& row : awkward_rows(random, k, storage)) {
            expect_near_definition(weights, {row.x}, row.what);
            expect_near_definition(weights, {row.x, row.x}, row.what);
          }
        }
      }
    };

    test("products of " + label(storage) + " differ from the real ones by half a step of each activation") = [storage] {
      Random random(6);
      for (const int k : {128, 640}) {
        Weights weights(random, storage, 11, k);
        for (const auto& x : random_rows(random, 4, k)) {
          std::vector<double> exact, allowed;
          for (int n = 0; n < 11; ++n) {
            double sum = 0.0, error = 0.0;
            for (int col = 0; col < k; ++col) {
              float largest = 0.0f;
              for (int i = 0; i < storage.group; ++i)
                largest = std::max(largest, std::abs(x[col / storage.group * storage.group + i]));
              const reference::Weight w = reference::weight_at(weights.matrix, n, col);
              sum += w.value() * x[col];
              // Of a pair, e - o/16 may be larger than both. A little more for sums in float32.
              error += std::abs(w.value()) * largest * (reference::is_paired(storage) ? 17.0 / 16 : 1.0) / 127 * 0.501 + 1e-6;
            }
            exact.push_back(sum);
            allowed.push_back(error);
          }
          for (const cpu::Q8Kernels* kernels : all_kernels()) {
            weights.lay_out_for(*kernels);
            expect(worst_error(multiply(*kernels, weights.view().weights(), {x}).front(), exact, allowed) <= 1.0_d) << kernels->name;
          }
        }
      }
    };

    test("products of " + label(storage) + " with activations that need no rounding are the real ones") = [storage] {
      Random random(7);
      const int k = 256, n = 6;
      Weights weights(random, storage, n, k);
      std::vector<float> x;  // steps of 1
      for (int i = 0; i < k; i += 2) {
        const int odd = i % storage.group == 0 ? -127 : random.below(255) - 127;
        const float even = static_cast<float>(random.below(255) - 127);
        x.push_back(reference::is_paired(storage) ? even + static_cast<float>(odd) / 16 : even);
        x.push_back(static_cast<float>(odd));
      }
      expect(reference::quantised(x, storage) == doubles(x));
      expect_near_definition(weights, {x}, "a row of steps");
    };

    test("what is no number makes the outputs of its row no numbers, and of no other: " + label(storage)) = [storage] {
      Random random(8);
      const int k = 384, n = 11;
      Weights weights(random, storage, n, k);
      for (const cpu::Q8Kernels* kernels : all_kernels()) {
        weights.lay_out_for(*kernels);
        for (std::uint32_t& word : weights.scales)
          if (random.chance(2)) word ^= 0x8000;  // a bias of the other sign, lest infinities always meet their opposites
        for (int rows = 1; rows <= cpu::kTileRows; ++rows) {
          const FloatRows x = random_rows(random, rows, k);
          const FloatRows expected = multiply(*kernels, weights.view().weights(), x);
          for (const float bad : {NAN, -NAN, INFINITY, -INFINITY})
            for (const int at : {0, 1, 31, k / 2, k - 1}) {
              const int row = random.below(rows);
              FloatRows with_bad = x;
              with_bad[row][at] = bad;
              if (random.chance(2)) with_bad[row][at ^ 1] = bad;
              const FloatRows y = multiply(*kernels, weights.view().weights(), with_bad);
              for (int r = 0; r < rows; ++r)
                expect(r == row ? all_nan(y[r]) : same_bits(y[r], expected[r]))
                    << kernels->name << bad << "at" << at << "of row" << row << "of" << rows << "seen in row" << r;
            }
        }
      }
    };

    test("products of " + label(storage) + " read nothing behind weights and scales") = [storage] {
      Random random(8);
      for (const int k : {128, 192, 704})
        for (const int n : {4, 8, 40, 41}) {
          if (!fits(storage, k)) continue;
          Weights weights(random, storage, n, k);
          for (const cpu::Q8Kernels* kernels : all_kernels()) {
            weights.lay_out_for(*kernels);
            const cpu::Q8Weights w = weights.view().weights();
            const Guarded scales(std::as_bytes(std::span(weights.scales)));
            for (const std::size_t spare : {0, 3}) {
              const Guarded values({w.values, w.row_bytes * n}, spare);
              cpu::Q8Weights guarded = w;
              guarded.values = values.data();
              guarded.scales = reinterpret_cast<const std::uint32_t*>(scales.data());
              for (int rows = 1; rows <= cpu::kTileRows; ++rows) {
                const FloatRows x = random_rows(random, rows, k);
                const FloatRows y = multiply(*kernels, guarded, x), expected = multiply(*kernels, w, x);
                for (int r = 0; r < rows; ++r) expect(same_bits(y[r], expected[r])) << kernels->name << n << "x" << k << rows;
              }
            }
          }
        }
    };

    test("steps of " + label(storage) + " write their rows and no others") = [storage] {
      Random random(9);
      const int k = 256;
      for (const int n : {1, 3, 23, 130}) {
        Weights weights(random, storage, n, k);
        for (const cpu::Q8Kernels* kernels : all_kernels()) {
          weights.lay_out_for(*kernels);
          const cpu::Sweep sweep = weights.view().weights().sweep;
          for (const int rows : {1, 2, 5, 8}) {
            const FloatRows x = random_rows(random, rows, k);
            const FloatRows whole = multiply(*kernels, weights.view().weights(), x);
            const int a = random.below(sweep.steps() + 1), b = random.below(sweep.steps() + 1);
            const cpu::Range steps{std::min(a, b), std::max(a, b)};
            const FloatRows some = multiply(*kernels, weights.view().weights(), x, steps);
            std::vector<bool> mine(n);
            sweep.for_each_run(steps, [&](int first, int count) { std::fill_n(mine.begin() + first, count, true); });
            int wrong = 0;
            for (int r = 0; r < rows; ++r)
              for (int i = 0; i < n; ++i)
                wrong += mine[i] ? !same_bits({some[r][i]}, {whole[r][i]}) : !is_untouched(some[r][i]);
            expect(eq(wrong, 0)) << kernels->name << rows << "rows, steps" << steps.begin << "to" << steps.end;
          }
        }
      }
    };
  }
};

// Both numbers with the same bits, or neither a number.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_bits({a[i]}, {b[i]}) && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return a.size() == b.size();
}

void expect_same_as_portable(const cpu::Q8Kernels& kernels, Weights& weights, const FloatRows& x, const std::string& what) {
  weights.lay_out_for(cpu::kPortableQ8);
  const FloatRows expected = multiply(cpu::kPortableQ8, weights.view().weights(), x);
  weights.lay_out_for(kernels);
  const cpu::Q8Weights w = weights.view().weights();
  const FloatRows got = multiply(kernels, w, x);
  for (std::size_t r = 0; r < x.size(); ++r)
    expect(same(got[r], expected[r])) << what << "N =" << w.rows << "K =" << w.cols << "row" << r << "of" << x.size();
}

void test_same_as_portable(const cpu::Q8Kernels& kernels) {
  for (const Storage& storage : q8_storages()) {
    const std::string name = std::string(kernels.name) + " gives the bits of portable code for " + label(storage);
    test(name + " at every width") = [storage, &kernels] {
      Random random(10);
      for (const int k : all_widths()) {
        if (!fits(storage, k)) continue;
        Weights weights(random, storage, k <= 2816 ? 23 : 5, k);
        for (int rows = 1; rows <= cpu::kTileRows; rows += kSlowBuild ? 3 : 1)
          expect_same_as_portable(kernels, weights, random_rows(random, rows, k), "random");
      }
    };

    test(name + " for any number of outputs") = [storage, &kernels] {
      Random random(11);
      for (const int n : {1, 2, 3, 4, 5, 11, 23, 70, 257, 1100}) {
        Weights weights(random, storage, n, 128);
        for (int rows = 1; rows <= (n > 1000 ? 1 : cpu::kTileRows); ++rows)
          expect_same_as_portable(kernels, weights, random_rows(random, rows, 128), "random");
      }
    };

    if (!kSlowBuild) test(name + " and awkward rows") = [storage, &kernels] {
      Random random(12);
      for (const int k : {128, 640}) {
        Weights weights(random, storage, 7, k);
        std::vector<Awkward> all = awkward_rows(random, k, storage);
        for (const float bad : {NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f}) {
          all.push_back({"no number", random.floats(k, -1, 1)});
          all.back().x[random.below(k)] = bad;
        }
        std::vector<std::byte> codes = {std::byte{0}, std::byte{0xff}};
        if (!is_emulated()) codes.insert(codes.end(), {std::byte{0xf0}, std::byte{0x0f}});
        for (const std::byte code : codes) {
          if (code != std::byte{0}) weights.fill(code);  // random ones at first
          for (const Awkward& row : all)
            for (int rows = 1; rows <= cpu::kTileRows; rows += next_rows()) {
              FloatRows x = random_rows(random, rows, k);
              x[random.below(rows)] = row.x;
              expect_same_as_portable(kernels, weights, x, row.what);
            }
        }
      }
    };

    if (storage.bits == 8) test(name + " where a sum rounded twice would be wrong") = [storage, &kernels] {
      // To what the first group has made the second one adds half of its last place and a little more or less, for which a
      // double has no room: 2^36 + 1 or 2^36 - 1, the product of a dot and a step of the activations.
      struct Product {
        int dot;
        float step;
      };
      Random random(14);
      const int n = 40, group = storage.group, last = 31;
      for (const Product product : {Product{658529, 104353.0f}, Product{652365, 105339.0f}})
        for (const float sign : {1.0f, -1.0f}) {
          std::vector<float> x = random.floats(2 * group, -1, 1);
          std::fill(x.begin() + group, x.end(), 0.0f);
          std::fill_n(x.begin() + group, last, sign * 127 * product.step);
          x[group + last] = sign * product.step;
          Weights weights(random, storage, n, 2 * group);
          for (int row = 0; row < n; ++row) {
            std::byte* codes = weights.random_matrix.values() + row * weights.matrix.row_bytes + group;
            for (int i = 0, left = product.dot / 127; i < last; ++i) {
              codes[i] = static_cast<std::byte>(std::min(left, 255));
              left -= std::min(left, 255);
            }
            codes[last] = static_cast<std::byte>(product.dot % 127);
          }
          weights.lay_out_for(kernels);
          const cpu::Q8Weights w = weights.view().weights();
          const auto for_each_second_scale = [&](auto set) {  // set(word, row)
            for (int step = 0; step < w.sweep.steps(); ++step)
              for (int stream = 0; stream < cpu::kStreams; ++stream)
                set(weights.scales[(2 * step + 1) * cpu::kStreams + stream], w.sweep.row(step, stream));
          };
          for_each_second_scale([](std::uint32_t& word, int) { word = 0; });
          const std::vector<float> first = multiply(cpu::kPortableQ8, w, {x}).front();
          for_each_second_scale([&](std::uint32_t& word, int row) {
            word = std::bit_cast<std::uint32_t>(std::ldexp(1.0f, std::ilogb(first[row]) - 24 - 36));
          });
          const std::vector<float> expected = multiply(cpu::kPortableQ8, w, {x}).front();
          int wrong = 0;
          for (int row = 0; row < n; ++row) {
            const double added = sign * std::ldexp(product.step * static_cast<double>(product.dot), std::ilogb(first[row]) - 60);
            wrong += static_cast<float>(first[row] + added) != expected[row];
          }
          expect(wrong > 0);
          for (int rows = 1; rows <= cpu::kTileRows; ++rows)
            for (const std::vector<float>& y : multiply(kernels, w, FloatRows(rows, x))) expect(same(y, expected)) << rows << "rows";
        }
    };

    test(name + " and random sizes") = [storage, &kernels] {
      Random random(13);
      const int k = 256;
      for (int round = 0; round < 50; ++round) {
        Weights weights(random, storage, 9, k);
        FloatRows x;
        for (int r = 0; r < 1 + round % cpu::kTileRows; ++r) {
          x.push_back(random.floats(k, -1, 1));
          for (float& value : x.back()) value = std::ldexp(value, random.below(round + 1) - round / 2);
        }
        expect_same_as_portable(kernels, weights, x, "random sizes");
      }
    };
  }
}

suite<"q8 instructions"> instructions_suite = [] {
  for (const cpu::Q8Kernels* kernels : all_kernels())
    if (kernels != &cpu::kPortableQ8) test_same_as_portable(*kernels);
};

}  // namespace
}  // namespace lapidary::test::q8_test
