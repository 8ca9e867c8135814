// K/V as codes: the bytes of every row are those of the definition and of the golden data, and stay where they belong.
#include <boost/ut.hpp>

#include "cpu/attention_coded.hpp"
#include "cpu/kernel_rows.hpp"
#include "numeric/kv_codes.hpp"
#include "reference/kv_codes.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"

namespace lapidary::test::kv_codes_test {
namespace {

using namespace boost::ut;
using link::KvCode;
using reference::Coded;
using reference::Floats;

constexpr int kGoldenRows = 28;

Coded encoded(KvCode code, const Floats& y) {
  Coded coded;
  const int n = static_cast<int>(y.size());
  coded.bytes.resize(code == KvCode::q4 ? y.size() / 2 : y.size());
  coded.scale = code == KvCode::q4 ? numeric::encode_q4(y.data(), n, coded.bytes.data())
                                   : numeric::encode_q8(y.data(), n, reinterpret_cast<std::int8_t*>(coded.bytes.data()));
  return coded;
}

// A scale that is not a number may be any.
bool same_scale(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
bool same(const Coded& a, const Coded& b) { return a.bytes == b.bytes && same_scale(a.scale, b.scale); }

template <class T>
std::vector<T> row_of(const std::vector<T>& all, int row, std::size_t size) {
  return {all.begin() + static_cast<std::ptrdiff_t>(row * size), all.begin() + static_cast<std::ptrdiff_t>((row + 1) * size)};
}

// A layer's cache between bytes that nobody may touch.
struct Cache {
  static constexpr int kCapacity = 192, kSlots = 2;
  std::vector<std::byte> k, v;
  cpu::KvCacheCoded view;

  Cache(link::KvStores stores, int kv_heads)
      : k(kSlots * kv_heads * kCapacity * stores.key_bytes(), std::byte{0xa5}), v(kSlots * kv_heads * kCapacity * stores.value_bytes(), std::byte{0xa5}) {
    // Sessions are a block for keys and values alike in a program; here each has its own.
    view = {k.data(), v.data(), stores, kv_heads, stores.values, kCapacity, 0, nullptr};
  }
  // One head at one position, as stored.
  Coded key(int head, int position) const {
    const auto tile = view.keys(0, head, position);
    Coded coded{.scale = tile.scales()[position % 64]};
    for (int i = 0; i < view.stores.keys; ++i) coded.bytes.push_back(static_cast<std::uint8_t>(tile.codes()[view.key_offset(position, i)]));
    return coded;
  }
  Coded value(int head, int position) const {
    const auto tile = view.values(0, head, position);
    Coded coded{.scale = tile.scales()[position % 64]};
    for (int i = 0; i < static_cast<int>(tile.code_bytes); ++i)
      coded.bytes.push_back(static_cast<std::uint8_t>(tile.codes()[view.value_offset(position, i)]));
    return coded;
  }
};

link::KvStores stores_of(KvCode values, int d, int turned) {
  return {.key_code = KvCode::q8, .value_code = values, .keys = turned ? turned : d, .values = d, .one = turned > 0};
}

const suite<"kv codes"> kv_codes = [] {
  "rows are coded as in the golden data, and as defined"_test = [] {
    const Expected golden(kFixtures + "/kv/parts.safetensors.xz");
    for (const std::size_t n : {16u, 32u, 64u, 128u, 256u, 512u}) {
      const std::string name = std::to_string(n);
      const auto input = golden.floats(name + ".input"), rotated = golden.floats(name + ".rotated");
      for (int row = 0; row < kGoldenRows; ++row) {
        Floats y = row_of(input, row, n);
        const bool finite = std::ranges::all_of(y, [](float x) { return std::isfinite(x); });
        const Floats by_definition = reference::rotated(y);
        numeric::rotate(y.data(), static_cast<int>(n));
        if (finite) {
          const bool golden_bits = y == row_of(rotated, row, n), defined_bits = y == by_definition;
          expect(golden_bits) << "rotated" << n << row;
          expect(defined_bits) << "by definition" << n << row;
        }
        for (const auto& [code, suffix] : {std::pair{KvCode::q8, ".q8"}, {KvCode::q4, ".q4"}}) {
          const Coded expected{.bytes = row_of(golden.bytes(name + suffix + ".data"), row, code == KvCode::q4 ? n / 2 : n),
                               .scale = golden.floats(name + suffix + ".scale")[static_cast<std::size_t>(row)]};
          expect(same(encoded(code, y), expected)) << suffix << n << row;
          const Coded defined = code == KvCode::q4 ? reference::encode_q4(y) : reference::encode_q8(y);
          expect(same(defined, expected)) << suffix << "defined" << n << row;
        }
      }
    }
  };

  "codes are restored to what they stand for"_test = [] {
    const Expected golden(kFixtures + "/kv/parts.safetensors.xz");
    for (const std::size_t n : {64u, 512u})
      for (int row = 0; row < kGoldenRows; ++row) {
        Floats y = row_of(golden.floats(std::to_string(n) + ".input"), row, n);
        numeric::rotate(y.data(), static_cast<int>(n));
        for (const auto& [code, suffix] : {std::pair{KvCode::q8, ".q8"}, {KvCode::q4, ".q4"}}) {
          const Coded coded = encoded(code, y);
          if (std::isnan(coded.scale)) continue;
          Floats x(n);
          if (code == KvCode::q4) numeric::decode_q4(coded.bytes.data(), coded.scale, static_cast<int>(n), x.data());
          else numeric::decode_q8(reinterpret_cast<const std::int8_t*>(coded.bytes.data()), coded.scale, static_cast<int>(n), x.data());
          const auto expected = row_of(golden.floats(std::to_string(n) + suffix + ".restored"), row, n);
          const auto defined = reference::restored(code == KvCode::q4 ? reference::encode_q4(y) : reference::encode_q8(y));
          double most = 0, off = 0;
          for (std::size_t i = 0; i < n; ++i) {
            most = std::max(most, static_cast<double>(std::abs(expected[i])));
            off = std::max({off, std::abs(static_cast<double>(x[i]) - expected[i]), std::abs(defined[i] - expected[i])});
          }
          expect(off <= 1e-5 * most) << suffix << n << row << off << most;
        }
      }
  };

  "every place of a tile is another one"_test = [] {
    const Cache cache(stores_of(KvCode::q8, 32, 16), 1);
    std::vector<int> keys(64 * 16), values(64 * 32);
    for (int t = 64; t < 128; ++t) {
      for (int i = 0; i < 16; ++i) ++keys[cache.view.key_offset(t, i)];
      for (int i = 0; i < 32; ++i) ++values[cache.view.value_offset(t, i)];
    }
    expect(std::ranges::count(keys, 1) == 64 * 16 && std::ranges::count(values, 1) == 64 * 32);
  };

  // Rows of a layer through the kernel that stores them: each is coded from itself alone, and nobody else's bytes change.
  for (const KvCode code : {KvCode::q8, KvCode::q4})
    for (const int turned : {0, 16})
      boost::ut::test(std::string("stored rows, ") + (code == KvCode::q8 ? "q8" : "q4") + (turned ? ", one store" : ", two stores")) = [=] {
        constexpr int kHeads = 2, kKvHeads = 2, kDim = 64;
        const bool one = turned > 0;
        Random random(4);
        const std::vector<graph::Row> rows = {{0, 5, 0, 5}, {0, 6, 0, 6}, {0, 64, 0, 64}, {0, 63, 0, 63}, {0, 127, 0, 127}};
        const int units = kHeads + (one ? 1 : 2) * kKvHeads;
        const FloatRows qkv = random_rows(random, count_of(rows), units * kDim), norms = random_rows(random, 2, kDim);
        FloatRows angles = random_rows(random, count_of(rows), kDim, -1, 1);
        for (auto& row : angles)
          for (int i = turned / 2; one && i < kDim / 2; ++i) row[i] = 1.0f, row[i + kDim / 2] = 0.0f;  // these do not turn
        const auto store = [&](Cache& cache, const std::vector<int>& numbers, int parts) {
          const RowBuffer in(gather(qkv, numbers)), turns(gather(angles, numbers));
          RowBuffer q(count_of(numbers), kHeads * kDim);
          const auto some = gather(rows, numbers);
          in_parts(parts, [&](cpu::Part part) {
            cpu::qkv_norm_rope_coded(some, in.in(), turns.in(), norms[0].data(), norms[1].data(), {kHeads, kKvHeads, kDim}, one, kEpsilon,
                                     cache.view, q.out(), part);
          });
        };
        Cache together(stores_of(code, kDim, turned), kKvHeads), before = together;
        store(together, {0, 1, 2, 3, 4}, 3);

        // What float32 K/V would have been, coded by definition.
        std::vector<float> k(kKvHeads * Cache::kCapacity * kDim), v(k.size());
        const link::KvCache plain{k.data(), v.data(), kKvHeads, kDim, Cache::kCapacity, k.size()};
        const RowBuffer in(qkv), turns(angles);
        RowBuffer q(count_of(rows), kHeads * kDim);
        cpu::qkv_norm_rope(rows, in.in(), turns.in(), norms[0].data(), norms[1].data(), {kHeads, kKvHeads, kDim}, one, kEpsilon, &plain, q.out(), {});
        for (const graph::Row& row : rows)
          for (int head = 0; head < kKvHeads; ++head) {
            const float* key = k.data() + plain.index(0, head, row.position);
            const float* value = v.data() + plain.index(0, head, row.position);
            Floats stored_key(key, key + kDim);
            if (one) {
              stored_key.assign(key, key + turned / 2);
              stored_key.insert(stored_key.end(), key + kDim / 2, key + kDim / 2 + turned / 2);
            }
            const Floats y = reference::rotated({value, value + kDim});
            expect(same(together.key(head, row.position), reference::encode_q8(reference::rotated(stored_key))));
            expect(same(together.value(head, row.position), code == KvCode::q4 ? reference::encode_q4(y) : reference::encode_q8(y)));
          }

        // Alone, in another order, over what was there before: the same bytes, and all others as they were.
        Cache alone(stores_of(code, kDim, turned), kKvHeads);
        store(alone, {3, 4}, 1);
        for (const int number : {2, 1, 0}) store(alone, {number}, 2);
        store(alone, {4}, 1);
        const bool same_bytes = alone.k == together.k && alone.v == together.v;
        expect(same_bytes);
        std::ptrdiff_t touched = 0;
        for (const auto& [now, then] : {std::pair{&together.k, &before.k}, {&together.v, &before.v}})
          for (std::size_t i = 0; i < now->size(); ++i) touched += (*now)[i] != (*then)[i];
        const auto& stores = together.view.stores;
        expect(touched <= static_cast<std::ptrdiff_t>(rows.size() * kKvHeads * (stores.key_bytes() + stores.value_bytes())));

        // And they are read back as they stand for.
        together.view.norm = norms[1].data();
        std::vector<float> read_key(kDim), read_value(kDim);
        together.view.read(0, 1, 64, read_key, read_value);
        for (int i = 0; i < kDim; ++i) {
          expect(std::abs(read_value[i] - v[plain.index(0, 1, 64) + i]) < (code == KvCode::q4 ? 0.6f : 0.05f)) << i;
          expect(std::abs(read_key[i] - k[plain.index(0, 1, 64) + i]) < (code == KvCode::q4 && one ? 1.2f : 0.1f)) << i;
        }
      };
};

}  // namespace
}  // namespace lapidary::test::kv_codes_test
