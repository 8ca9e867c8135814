// Whole models with K/V as codes, on any backend: near the reference, and copied as bytes.
#include <boost/ut.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "reference/kv_codes.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"
#include "support/kv_logits.hpp"
#include "support/random.hpp"

namespace lapidary::test::kv_models_test {
namespace {

using namespace boost::ut;

const link::KvFormat* const kCoded[] = {&link::kKvQ8, &link::kKvQ4};

const suite<"kv models"> kv_models = [] {
  for (const char* name : {"dense-bf16", "moe-bf16", "ple-bf16", "unified-bf16"})
    boost::ut::test(std::string(name) + " with codes computes what the reference computes") = [name] {
      const Expected golden(kFixtures + "/kv/models.safetensors");
      const auto ids = golden.ids(std::string(name) + ".input_ids");
      for (const link::KvFormat* format : kCoded) {
        const auto expected = golden.floats(std::string(name) + ".logits." + std::string(format->name));
        const Logits all = logits_of(kFixtures + "/models/" + name, format, ids);
        const std::size_t vocab = all[0].size(), rows = expected.size() / vocab;
        double sum = 0, most = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const double off = std::abs(all[all.size() - rows + i / vocab][i % vocab] - expected[i]);
          sum += off;
          most = std::max(most, off);
        }
        std::printf("kv: %s %s: differs from the reference by %.4f in the mean, %.3f at most\n", name, std::string(format->name).c_str(), sum / static_cast<double>(expected.size()), most);
        expect(sum / static_cast<double>(expected.size()) < 0.02 && most < 0.3) << name << format->name;
      }
    };

  // One store holds what two do: float32 keeps both, so what codes would make of one of them can be seen beside the other.
  for (const char* name : {"moe-bf16", "unified-bf16"})
    boost::ut::test(std::string(name) + " has keys that its values and what turns of the keys hold") = [name] {
      Loaded model(kFixtures + "/models/" + name, {.context_tokens = 64, .kv = &link::kKvF32});
      Random random(4);
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 48; ++i) tokens.push_back(4 + random.below(240));
      decode::Session session(model.program, *model.executor);
      session.prefill(tokens);
      const graph::Shape& shape = model.program.graph->shape;
      for (int l = 0; l < shape.layer_count; ++l) {
        const graph::LayerShape& layer = shape.layers[static_cast<std::size_t>(l)];
        if (!layer.values_are_keys || layer.kv_layer != l) continue;
        const float* weights = model.program.vectors[link::key_norm_weight(*model.program.graph, l)];
        const reference::Vector norm(weights, weights + layer.head_dim), no_norm(norm.size(), 1.0);
        const std::size_t pairs = static_cast<std::size_t>(link::turned_pairs(shape, layer)), half = norm.size() / 2;
        const auto off_by = [&](std::size_t shift, std::size_t apart, bool has_norm) {
          double most = 0;
          std::vector<float> key(norm.size()), value(key.size());
          for (int head = 0; head < layer.kv_heads; ++head)
            for (int position = 0; position < session.length(); ++position) {
              model.executor->read_kv(0, l, head, position, key, value);
              reference::Vector turned;
              for (std::size_t i = 0; i < pairs; ++i) turned.push_back(key[i + shift]);
              for (std::size_t i = 0; i < pairs; ++i) turned.push_back(key[i + shift + apart]);
              const reference::Vector made = reference::key_of({value.begin(), value.end()}, turned, has_norm ? norm : no_norm);
              for (std::size_t i = 0; i < key.size(); ++i) most = std::max(most, std::abs(made[i] - key[i]));
            }
          return most;
        };
        expect(off_by(0, half, true) < 1e-5) << l;
        expect(off_by(0, half, false) > 1e-3) << "no norm" << l;
        expect(off_by(1, half, true) > 1e-3) << "one further" << l;
        expect(off_by(0, pairs, true) > 1e-3) << "neighbours" << l;
      }
    };

  "a copied session goes on as its original does"_test = [] {
    for (const link::KvFormat* format : kCoded) {
      Loaded model(kFixtures + "/models/unified-bf16", {.context_tokens = 256, .sessions = 2, .kv = format});
      Random random(3);
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 130; ++i) tokens.push_back(4 + random.below(240));
      decode::Session one(model.program, *model.executor, 0), other(model.program, *model.executor, 1);
      one.prefill(tokens);
      model.executor->copy_slot(0, 1, one.length());
      other.adopt(tokens, {}, one.length());
      for (const std::int32_t token : {9, 77, 130}) {
        one.forward({&token, 1});
        const std::vector<float> expected(one.logits(0).begin(), one.logits(0).end());
        other.forward({&token, 1});
        expect(std::memcmp(other.logits(0).data(), expected.data(), expected.size() * sizeof(float)) == 0) << format->name;
      }
    }
  };
};

}  // namespace
}  // namespace lapidary::test::kv_models_test
