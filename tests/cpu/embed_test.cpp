// embed and ple_inputs for every storage of their tables.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "reference/embed.hpp"
#include "support/random_weights.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

// Dequantise and scale: a few roundings of |scale * code| + |bias|.
constexpr double kLookupError = 3e-7;

// Vocabulary rows of the test tables; tokens ask for the first and the last too.
constexpr int kTokens = 70;

std::vector<graph::Row> rows_of_tokens(const std::vector<int>& tokens) {
  std::vector<graph::Row> rows;
  for (const int token : tokens) rows.push_back({.slot = 0, .position = 5, .token = token, .block_end = 5});
  return rows;
}

FloatRows embed(const std::vector<int>& tokens, const link::Matrix& table, float scale, int parts = 1) {
  const auto rows = rows_of_tokens(tokens);
  RowBuffer out(static_cast<int>(rows.size()), table.cols);
  in_parts(parts, [&](cpu::Part part) { cpu::embed(rows, table, scale, out.out(), part); });
  return out.rows();
}

std::vector<double> lookup_errors(const link::Matrix& table, int token, double scale) {
  std::vector<double> errors;
  // A subnormal result is rounded to a multiple of 2^-149.
  for (int col = 0; col < table.cols; ++col)
    errors.push_back(kLookupError * reference::weight_at(table, token, col).magnitude() * scale + 0x1p-149);
  return errors;
}

suite<"embed"> embed_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("embed from " + label(storage) + " is near its definition and the same among any other rows") = [&storage] {
      Random random(1);
      for (const int hidden : {1536, 2560, 3840, 2816, 5376, 192, 64}) {
        if (!fits(storage, hidden)) continue;
        const RandomMatrix random_table(random, storage, kTokens, hidden);
        const link::Matrix table = random_table.view();
        const float scale = 39.25f;
        for (const int token : {0, kTokens / 2, kTokens - 1})
          expect(worst_error(embed({token}, table, scale).front(),
                             reference::embed(reference::dequantise_row(table, token), scale),
                             lookup_errors(table, token, scale)) <= 1.0_d)
              << "hidden" << hidden << "token" << token;
        if (hidden == 192 || hidden == 1536)
          expect_rows_independent(random, kTokens, [&](const std::vector<int>& tokens, int parts) {
            return embed(tokens, table, scale, parts);
          });
      }
    };
  }

  "embed reads every code of the floating-point storages at scales from end to end of their range"_test = [] {
    Random random(2);
    const struct {
      Storage storage;
      std::vector<int> scales;  // as far as the largest element times scale is a float32
    } cases[] = {{{Encoding::mxfp4, DType::u8, 4, 32}, {0, 1, 2, 126, 127, 128, 252}},
                 {{Encoding::nvfp4, DType::u8, 4, 16}, {0x00, 0x01, 0x07, 0x08, 0x38, 0x7e, 0x81, 0xb8, 0xfe}},
                 {{Encoding::mxfp8, DType::u8, 8, 32}, {0, 1, 2, 126, 127, 128, 246}}};
    for (const auto& [storage, scales] : cases) {
      const int cols = 256, tokens = static_cast<int>(scales.size());
      RandomMatrix random_table(random, storage, tokens, cols);
      const link::Matrix table = random_table.view();
      for (int token = 0; token < tokens; ++token) {
        for (std::size_t i = 0; i < table.row_bytes; ++i) {
          const std::size_t pair = (2 * i) % 16 | (2 * i + 1) % 16 << 4, single = (i & 0x7f) == 0x7f ? 0 : i;  // no NaN
          random_table.values()[token * table.row_bytes + i] =
              static_cast<std::byte>(storage.bits == 4 ? pair : single);
        }
        for (std::size_t i = 0; i < table.scale_row_bytes; ++i)
          random_table.scales()[token * table.scale_row_bytes + i] = static_cast<std::byte>(scales[token]);
        expect(worst_error(embed({token}, table, 1.0f).front(), reference::dequantise_row(table, token),
                           lookup_errors(table, token, 1.0)) <= 1.0_d)
            << label(storage) << "with scale" << scales[token];
      }
    }
  };
};

struct Ple {
  int layers, width;
  std::vector<float> norm;
  float projection_scale = 0.025515518f, table_scale = 16.0f;
};

FloatRows ple_inputs(const std::vector<int>& tokens, const FloatRows& projected, const link::Matrix& table,
                     const Ple& ple, int parts = 1) {
  const auto rows = rows_of_tokens(tokens);
  const RowBuffer in(projected);
  RowBuffer out(static_cast<int>(rows.size()), ple.layers * ple.width);
  in_parts(parts, [&](cpu::Part part) {
    cpu::ple_inputs(rows, in.in(), table, ple.norm.data(), ple.layers, ple.width, ple.projection_scale, ple.table_scale,
                    kEpsilon, out.out(), part);
  });
  return out.rows();
}

suite<"ple_inputs"> ple_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("ple_inputs from " + label(storage) +
         " is near its definition and the same among any other rows") = [&storage] {
      Random random(3);
      for (const auto& [layers, width] : {std::pair{35, 256}, std::pair{42, 256}, std::pair{4, 32}}) {
        if (!fits(storage, layers * width)) continue;
        const Ple ple{layers, width, random.floats(width, -2, 2)};
        const int vocab = 9;
        const RandomMatrix random_table(random, storage, vocab, layers * width);
        const link::Matrix table = random_table.view();
        const FloatRows projected = random_rows(random, vocab, layers * width, -60, 60);
        for (const int token : {0, vocab - 1}) {
          const auto expected =
              reference::ple_inputs(doubles(projected[token]), reference::dequantise_row(table, token),
                                    doubles(ple.norm), ple.projection_scale, ple.table_scale, kEpsilon);
          std::vector<double> allowed = lookup_errors(table, token, ple.table_scale);
          // And that of the normed part, which is at most |out| sqrt(2) + |table part|.
          for (std::size_t i = 0; i < allowed.size(); ++i)
            allowed[i] += 1e-6 * std::abs(expected[i]) + allowed[i] * (1e-6 / kLookupError);
          expect(worst_error(ple_inputs({token}, {projected[token]}, table, ple).front(), expected, allowed) <= 1.0_d)
              << layers << "layers of" << width << "token" << token;
        }
        expect_rows_independent(random, vocab, [&](const std::vector<int>& numbers, int parts) {
          return ple_inputs(numbers, gather(projected, numbers), table, ple, parts);
        });
      }
    };
  }
};

}  // namespace
}  // namespace lapidary::test
