// Attention on codes against the golden data, and what a mistake in what one store needs would do to it.
#include <cstring>
#include <memory>

#include "cpu/coded_cache.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"

namespace lapidary::test::attention_golden_test {
namespace {

using namespace boost::ut;
using Shape = CodedShape;
using Cache = CodedCache;

// A case of the golden data, its rows coded by the writer.
struct GoldenCase {
  Shape shape;
  std::vector<int> positions;
  FloatRows q;
  std::unique_ptr<Cache> cache;

  GoldenCase(const Expected& golden, const std::string& name, KvCode values, int pair_shift = 0) {
    const auto numbers = golden.ids(name + ".shape");  // D, turned pairs, one store, heads, K/V heads, rows, window
    const int d = numbers[0], kv_heads = numbers[4], rows = numbers[5];
    shape = {{numbers[3], kv_heads, d}, numbers[2] ? numbers[1] : 0, values, numbers[6]};
    positions = golden.ids(name + ".positions");
    const auto queries = golden.halves(name + ".q"), v = golden.halves(name + ".v"), norm = golden.halves(name + ".k_norm");
    const auto k = golden.halves(name + (shape.pairs ? ".turned" : ".k"));
    const int width = numbers[3] * d, stored = shape.pairs ? 2 * shape.pairs : d;
    for (std::size_t r = 0; r < positions.size(); ++r) q.emplace_back(queries.begin() + static_cast<std::ptrdiff_t>(r) * width, queries.begin() + static_cast<std::ptrdiff_t>(r + 1) * width);
    cache = std::make_unique<Cache>(shape, rows);
    cache->norm = norm;
    cache->view.norm = cache->norm.data();
    for (int t = 0; t < rows; ++t)
      for (int head = 0; head < kv_heads; ++head) {
        const float* from = k.data() + static_cast<std::ptrdiff_t>(t * kv_heads + head) * stored;
        std::vector<float> key(d, kUntouched);
        if (shape.pairs) {
          std::copy_n(from, shape.pairs, key.begin() + pair_shift);
          std::copy_n(from + shape.pairs, shape.pairs, key.begin() + d / 2);
        } else {
          key.assign(from, from + d);
        }
        cache->view.store_key(0, head, t, key.data());
        cache->view.store_value(0, head, t, v.data() + static_cast<std::ptrdiff_t>(t * kv_heads + head) * d);
      }
  }

  // Bytes and scales of all rows are those of the golden data.
  bool has_golden_bytes(const Expected& golden, const std::string& name) const {
    const auto& stores = cache->view.stores;
    const auto agrees = [&](const std::string& part, bool keys, std::size_t bytes) {
      const auto data = golden.bytes(name + part + ".data");
      const auto scales = golden.floats(name + part + ".scale");
      std::size_t at = 0, row = 0;
      for (std::size_t t = 0; at < data.size(); ++t)
        for (int head = 0; head < stores_heads(); ++head, ++row) {
          const int position = static_cast<int>(t);
          const auto tile = keys ? cache->view.keys(0, head, position) : cache->view.values(0, head, position);
          if (std::memcmp(tile.scales() + position % 64, &scales[row], sizeof(float)) != 0) return false;
          for (std::size_t i = 0; i < bytes; ++i, ++at) {
            const auto place = keys ? cache->view.key_offset(position, static_cast<int>(i)) : cache->view.value_offset(position, static_cast<int>(i));
            if (static_cast<std::uint8_t>(tile.codes()[place]) != data[at]) return false;
          }
        }
      return true;
    };
    const bool q4 = shape.values == KvCode::q4;
    const auto d = static_cast<std::size_t>(stores.values);
    return agrees(shape.pairs ? ".turned.q8" : ".keys.q8", true, static_cast<std::size_t>(stores.keys)) &&
           agrees(q4 ? ".values.q4" : ".values.q8", false, q4 ? d / 2 : d);
  }
  int stores_heads() const { return shape.heads.kv_heads; }

  std::vector<float> run(const Way& way) const {
    std::vector<float> all;
    for (const auto& row : attend(way, positions, q, *cache)) all.insert(all.end(), row.begin(), row.end());
    return all;
  }
};

const char* const kGoldenCases[] = {"two-64", "one-64", "one-128", "window-128", "two-512", "one-512", "flat-64", "sharp-64"};

const suite<"golden attention"> golden_attention = [] {
  const auto ways = all_ways();
  "golden attention"_test = [&] {
    const Expected golden(kFixtures + "/kv/attention.safetensors.xz");
    for (const char* name : kGoldenCases)
      for (const KvCode code : {KvCode::q8, KvCode::q4}) {
        const GoldenCase one(golden, name, code);
        expect(one.has_golden_bytes(golden, name)) << name;
        const auto expected = golden.floats(std::string(name) + (code == KvCode::q4 ? ".out.q4" : ".out.q8"));
        for (const Way& way : ways) {
          const double off = difference(one.run(way), expected);
          expect(off < (is_exact(way) ? 1e-5 : 1e-2)) << name << way.name << off;
        }
      }
  };

  "a wrong norm, a shifted or badly paired turn are seen"_test = [&] {
    const Expected golden(kFixtures + "/kv/attention.safetensors.xz");
    for (const char* name : {"one-64", "one-128", "one-512"}) {
      const auto expected = golden.floats(std::string(name) + ".out.q8");
      GoldenCase norm(golden, name, KvCode::q8);
      std::ranges::fill(norm.cache->norm, 1.0f);
      expect(difference(norm.run(cpu::kExactCodedAttention), expected) > 1e-2) << name;
      GoldenCase shifted(golden, name, KvCode::q8, 1);
      expect(!(difference(shifted.run(cpu::kExactCodedAttention), expected) < 1e-2)) << name;
      // The first 2 n components instead of n pairs: queries in that order.
      GoldenCase paired(golden, name, KvCode::q8);
      const int d = paired.shape.heads.head_dim, pairs = paired.shape.pairs;
      for (auto& row : paired.q)
        for (int head = 0; head < paired.shape.heads.heads; ++head)
          for (int i = 0; i < pairs; ++i) std::swap(row[head * d + pairs + i], row[head * d + d / 2 + i]);
      expect(difference(paired.run(cpu::kExactCodedAttention), expected) > 1e-2) << name;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::attention_golden_test
