// K/V as codes on the device: the bytes that are stored are those of the definition, attention on them is near it and the same bits for a
// row in any company, however its positions are split.
#include <boost/ut.hpp>

#include "metal/stage.hpp"
#include "numeric/kv_codes.hpp"
#include "reference/kv_codes.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"
#include "support/rope_cases.hpp"

namespace lapidary::test::kv_codes_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using graph::kTile;
using graph::Op;
using link::KvCode;
using reference::Coded;
using reference::Floats;

link::KvStores stores_of(KvCode values, int d, int pairs) {
  return {.key_code = KvCode::q8, .value_code = values, .keys = pairs ? 2 * pairs : d, .values = d, .one = pairs > 0};
}
Coded encoded(KvCode code, const Floats& y) { return code == KvCode::q4 ? reference::encode_q4(y) : reference::encode_q8(y); }

// Tiles of one head: codes of 64 positions, then their scales.
struct Store {
  int code_bytes, capacity;
  std::vector<std::uint8_t> bytes;

  Store(std::size_t position_bytes, int kv_heads, int positions)
      : code_bytes(static_cast<int>(position_bytes - sizeof(float))), capacity(positions), bytes(position_bytes * static_cast<std::size_t>(kv_heads * positions), 0xa5) {}

  std::size_t tile_at(int head, int t) const { return static_cast<std::size_t>(head * capacity + t / kTile * kTile) * static_cast<std::size_t>(code_bytes + 4); }
  std::size_t codes_at(int head, int t) const { return tile_at(head, t) + static_cast<std::size_t>(t % kTile * code_bytes); }
  std::size_t scale_at(int head, int t) const { return tile_at(head, t) + static_cast<std::size_t>(kTile * code_bytes + t % kTile * 4); }

  void put(int head, int t, const Coded& coded) {
    std::ranges::copy(coded.bytes, bytes.begin() + static_cast<std::ptrdiff_t>(codes_at(head, t)));
    std::memcpy(bytes.data() + scale_at(head, t), &coded.scale, 4);
  }
  void put_scale(int head, int t, float scale) { std::memcpy(bytes.data() + scale_at(head, t), &scale, 4); }
};

struct Layer {
  int heads, kv_heads, head_dim, pairs;  // pairs that turn where there is one store; 0: two
  KvCode code;
  int window = 0;
};
std::string label(const Layer& layer) {
  return std::to_string(layer.heads) + "/" + std::to_string(layer.kv_heads) + " heads of " + std::to_string(layer.head_dim) +
         (layer.code == KvCode::q4 ? ", q4" : ", q8") + (layer.pairs ? ", one store" : "");
}

// A text's K/V, coded, with what they stand for.
struct Text {
  Layer layer;
  int capacity;
  link::KvStores stores;
  Store keys, values;
  Floats norm;
  std::vector<reference::Table> key_rows, value_rows;  // by K/V head

  Text(const Layer& l, int positions)
      : layer(l), capacity((positions + kTile - 1) / kTile * kTile), stores(stores_of(l.code, l.head_dim, l.pairs)),
        keys(stores.key_bytes(), l.kv_heads, capacity), values(stores.value_bytes(), l.kv_heads, capacity), norm(l.head_dim, 1.0f),
        key_rows(l.kv_heads), value_rows(l.kv_heads) {
    spoil(0, capacity, kNaN);
  }

  void spoil(int begin, int end, float scale) {
    for (int head = 0; head < layer.kv_heads; ++head)
      for (int t = begin; t < end; ++t)
        for (Store* store : {&keys, &values}) {
          std::fill_n(store->bytes.begin() + static_cast<std::ptrdiff_t>(store->codes_at(head, t)), store->code_bytes, 0x80);
          store->put_scale(head, t, scale);
        }
  }

  // key: what is stored of it; value: all
  void add(int head, int t, const Floats& key, const Floats& value) {
    const Coded coded_key = reference::encode_q8(reference::rotated(key)), coded_value = encoded(layer.code, reference::rotated(value));
    keys.put(head, t, coded_key);
    values.put(head, t, coded_value);
    value_rows[head].push_back(reference::restored(coded_value));
    const auto turned = reference::restored(coded_key);
    key_rows[head].push_back(layer.pairs ? reference::key_of(value_rows[head].back(), turned, {norm.begin(), norm.end()}) : turned);
  }

  static Text random(Random& random, const Layer& layer, int positions) {
    Text text(layer, positions);
    text.norm = random.floats(layer.head_dim, 0.5, 1.5);
    for (int t = 0; t < positions; ++t)
      for (int head = 0; head < layer.kv_heads; ++head)
        text.add(head, t, random.floats(text.stores.keys, -0.3, 0.3), random.floats(layer.head_dim, -1, 1));
    return text;
  }
};

FloatRows attention(const std::vector<int>& positions, const FloatRows& q, const Text& text, int kv_ranges = 1) {
  const Layer& layer = text.layer;
  const graph::Dims dims{.heads = layer.heads, .kv_heads = layer.kv_heads, .head_dim = layer.head_dim, .window = layer.window};
  Stage stage(Op::attention, dims, count_of(positions));
  std::vector<graph::Row> rows;
  for (const int position : positions) rows.push_back({0, position, 0, position});
  stage.row_table(rows);
  stage.in(0, q);
  stage.kv(text.stores, text.keys.bytes, text.values.bytes, text.capacity, 0, text.norm);
  stage.out(0, layer.heads * layer.head_dim);
  stage.bound().kv_ranges = kv_ranges;
  if (const std::size_t bytes = metal::attention_scratch_bytes(dims, count_of(rows), kv_ranges))
    stage.bound().scratch = stage.hold(std::vector<float>(bytes / sizeof(float), kUntouched));
  stage.play();
  return stage.floats(0);
}

double difference(const std::vector<float>& got, const std::vector<float>& expected) {
  double most = 0, off = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, static_cast<double>(std::abs(expected[i])));
    off = std::isnan(got[i]) ? INFINITY : std::max(off, static_cast<double>(std::abs(got[i] - expected[i])));
  }
  return off / most;
}

suite<"codes on the device"> codes_suite = [] {
  // Rows of the golden data as projections: what float32 K/V would be, coded by definition.
  for (const KvCode code : {KvCode::q8, KvCode::q4})
    for (const int d : {64, 512})
      for (const int pairs : {0, d / 8})
        test("stored rows of " + std::to_string(d) + (code == KvCode::q4 ? ", q4" : ", q8") + (pairs ? ", one store" : "")) = [=] {
          const auto input = Expected(kFixtures + "/kv/parts.safetensors.xz").floats(std::to_string(d) + ".input");
          constexpr int kRows = 28, kCapacity = 128;
          const bool one = pairs > 0;
          Random random(7);
          const int units = one ? 2 : 3;
          FloatRows qkv;
          std::vector<graph::Row> rows;
          for (int r = 0; r < kRows; ++r) {
            const Floats x(input.begin() + r * d, input.begin() + (r + 1) * d);
            auto& row = qkv.emplace_back(random.floats(d, -1, 1));
            for (int unit = 1; unit < units; ++unit) row.insert(row.end(), x.begin(), x.end());
            rows.push_back({0, 50 + r, 0, 50 + r});
          }
          const FloatRows angles = random_rows(random, kRows, d, -1, 1);
          const Floats norms = random.floats(d, -2, 2);
          const auto set_up = [&](Stage& stage) {
            stage.in(0, qkv);
            stage.in(1, angles);
            stage.vector(0, norms);
            stage.vector(1, norms);
            stage.out(0, d);
            stage.row_table(rows);
          };
          const graph::Dims dims{.heads = 1, .kv_heads = 1, .head_dim = d, .epsilon = kEpsilon, .owns_kv = true, .values_are_keys = one};
          Stage numbers(Op::qkv_norm_rope, dims, kRows), codes(Op::qkv_norm_rope, dims, kRows);
          set_up(numbers);
          const Floats empty(static_cast<std::size_t>(kCapacity * d), kUntouched);
          numbers.kv(empty, empty, kCapacity, empty.size(), false);
          numbers.play();
          set_up(codes);
          const link::KvStores stores = stores_of(code, d, pairs);
          Store keys(stores.key_bytes(), 1, kCapacity), values(stores.value_bytes(), 1, kCapacity);
          codes.kv(stores, keys.bytes, values.bytes, kCapacity, 0, {});
          codes.play();
          const Floats k = numbers.keys(), v = numbers.values();
          for (const graph::Row& row : rows) {
            const auto at = static_cast<std::ptrdiff_t>(row.position) * d;
            Floats key(k.begin() + at, k.begin() + at + d);
            if (one) {
              key.resize(static_cast<std::size_t>(pairs));
              key.insert(key.end(), k.begin() + at + d / 2, k.begin() + at + d / 2 + pairs);
            }
            keys.put(0, row.position, reference::encode_q8(reference::rotated(key)));
            values.put(0, row.position, encoded(code, reference::rotated({v.begin() + at, v.begin() + at + d})));
          }
          const bool same_keys = codes.key_bytes() == keys.bytes, same_values = codes.value_bytes() == values.bytes;
          expect(same_keys) << "keys";
          expect(same_values) << "values";
        };

  "golden attention on the device"_test = [] {
    const Expected golden(kFixtures + "/kv/attention.safetensors.xz");
    for (const std::string name : {"two-64", "one-64", "one-128", "window-128", "two-512", "one-512", "flat-64", "sharp-64"})
      for (const KvCode code : {KvCode::q8, KvCode::q4}) {
        const auto numbers = golden.ids(name + ".shape");  // D, turned pairs, one store, heads, K/V heads, rows, window
        const Layer layer{numbers[3], numbers[4], numbers[0], numbers[2] ? numbers[1] : 0, code, numbers[6]};
        const auto q = golden.halves(name + ".q"), v = golden.halves(name + ".v");
        const auto k = golden.halves(name + (layer.pairs ? ".turned" : ".k"));
        Text text(layer, numbers[5]);
        text.norm = golden.halves(name + ".k_norm");
        const int d = layer.head_dim, stored = text.stores.keys;
        for (int t = 0; t < numbers[5]; ++t)
          for (int head = 0; head < layer.kv_heads; ++head) {
            const auto number = static_cast<std::ptrdiff_t>(t * layer.kv_heads + head);
            const Floats key = {k.begin() + number * stored, k.begin() + (number + 1) * stored}, value = {v.begin() + number * d, v.begin() + (number + 1) * d};
            text.keys.put(head, t, reference::encode_q8(reference::rotated(key)));
            text.values.put(head, t, encoded(code, reference::rotated(value)));
          }
        const auto positions = golden.ids(name + ".positions");
        const int width = layer.heads * d;
        FloatRows queries;
        for (std::size_t r = 0; r < positions.size(); ++r)
          queries.emplace_back(q.begin() + static_cast<std::ptrdiff_t>(r) * width, q.begin() + static_cast<std::ptrdiff_t>(r + 1) * width);
        std::vector<float> all;
        for (const auto& row : attention(positions, queries, text)) all.insert(all.end(), row.begin(), row.end());
        const double off = difference(all, golden.floats(name + (code == KvCode::q4 ? ".out.q4" : ".out.q8")));
        expect(off < 1e-5) << name << off;
      }
  };

  for (const Layer& layer : {Layer{8, 1, 64, 0, KvCode::q8}, Layer{4, 1, 128, 16, KvCode::q8}, Layer{4, 2, 32, 4, KvCode::q4}, Layer{4, 1, 256, 32, KvCode::q4}}) {
    test("attention of " + label(layer) + " gives a row the same bits among any others, and does not look at what is invisible") = [layer] {
      Random random(3);
      Text text = Text::random(random, layer, 140);
      const std::vector<int> positions = {62, 63, 64, 65, 127, 128, 129, 5};
      const FloatRows q = random_rows(random, count_of(positions), layer.heads * layer.head_dim);
      expect_rows_independent(random, count_of(positions), [&](const std::vector<int>& numbers, int) {
        return attention(gather(positions, numbers), gather(q, numbers), text);
      });
      const auto before = attention({100}, {q[0]}, text);
      for (const float scale : {kNaN, kInfinity}) {
        text.spoil(101, 140, scale);
        expect(same_bits(attention({100}, {q[0]}, text)[0], before[0]));
      }
      const reference::Vector query(q[0].begin(), q[0].begin() + layer.head_dim);
      const auto exact = reference::attention_head(query, text.key_rows[0], text.value_rows[0], 100, 100, 0);
      const double off = difference({before[0].begin(), before[0].begin() + layer.head_dim}, {exact.begin(), exact.end()});
      expect(off < 1e-5) << off;
    };
  }

  "attention on codes has the same bits however its positions are split"_test = [] {
    Random random(11);
    for (const Layer& layer : {Layer{4, 2, 64, 8, KvCode::q8}, Layer{2, 1, 32, 0, KvCode::q4}}) {
      const int range = metal::kKvRange;
      const Text text = Text::random(random, layer, 2 * range + 70);
      for (const int position : {range - 1, range, 2 * range + 69}) {
        const FloatRows q = random_rows(random, 1, layer.heads * layer.head_dim);
        const auto expected = attention({position}, q, text);
        for (const int ranges : {2, 4})
          if (position < ranges * range) expect(same_bits(attention({position}, q, text, ranges)[0], expected[0])) << position << ranges;
      }
    }
  };
};

}  // namespace
}  // namespace lapidary::test::kv_codes_test
