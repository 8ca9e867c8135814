// Every text fixture through the whole house, against the reference: logits, layers, K/V, greedy tokens.
#include <boost/ut.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "support/cases.hpp"
#include "support/expected.hpp"
#include "support/model.hpp"
#include "support/slow_build.hpp"
#include "support/slow_device.hpp"

namespace lapidary::test::fixtures_test {
namespace {

using namespace boost::ut;

constexpr float kLogitsTolerance = 0.002f;          // as fixtures/README.md recommends
constexpr float kHiddenRelativeTolerance = 0.0001f;

float largest_difference(std::span<const float> a, std::span<const float> b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

float largest(std::span<const float> a) {
  float most = 0;
  for (const float x : a) most = std::max(most, std::abs(x));
  return most;
}

bool close(std::span<const float> ours, std::span<const float> expected) {
  return largest_difference(ours, expected) <= kHiddenRelativeTolerance * largest(expected);
}

struct Run {
  std::vector<float> logits, final_norm;         // [tokens, vocab], [tokens, hidden]
  std::vector<std::vector<float>> layers;        // each [tokens, hidden]
  std::vector<std::int32_t> greedy;
};

Run run(Loaded& model, decode::Session& session, const std::vector<std::int32_t>& prompt) {
  const graph::Shape& shape = model.program.graph->shape;
  Run result;
  result.layers.resize(shape.layer_count);
  decode::Session::Observer observer;
  observer.step = [&](const link::StepResult& step) {
    if (step.step.tap == graph::kNone) return;
    auto& layer = result.layers[step.step.tap];
    for (std::size_t r = 0; r < step.rows; ++r) layer.insert(layer.end(), step.out[0].floats(r), step.out[0].floats(r) + shape.hidden);
  };
  observer.window = [&](std::int32_t, std::int32_t count) {
    for (int i = 0; i < count; ++i) {
      result.logits.insert(result.logits.end(), session.logits(i).begin(), session.logits(i).end());
      result.final_norm.insert(result.final_norm.end(), session.hidden(i).begin(), session.hidden(i).end());
    }
  };
  session.prefill_all(prompt, observer);
  result.greedy = decode::greedy(session, 64);
  return result;
}

void check_prompt(Loaded& model, const Expected& expected, int index) {
  const std::string prompt = "prompt" + std::to_string(index) + ".";
  const auto ids = expected.ids(prompt + "input_ids");
  decode::Session session(model.program, *model.executor);
  const Run ours = run(model, session, ids);

  const auto logits = expected.floats(prompt + "logits");  // of the last positions
  expect(fatal(logits.size() <= ours.logits.size() && !logits.empty()));
  const float difference = largest_difference(std::span(ours.logits).last(logits.size()), logits);
  expect(difference <= kLogitsTolerance) << prompt << "logits differ by " << difference;
  expect(ours.greedy == expected.ids(prompt + "greedy")) << prompt << "greedy tokens differ";

  if (expected.has(prompt + "final_norm")) expect(close(ours.final_norm, expected.floats(prompt + "final_norm"))) << prompt;
  for (std::size_t l = 0; l < ours.layers.size(); ++l) {
    const std::string layer = std::to_string(l);
    if (expected.has(prompt + "layer" + layer))
      expect(close(ours.layers[l], expected.floats(prompt + "layer" + layer))) << prompt << "layer " << layer;
  }
}

// K and V of a prompt as the reference caches them: [kv head, tokens, head_dim].
void check_cache(Loaded& model, const Expected& expected) {
  const auto ids = expected.ids("prompt1.input_ids");
  decode::Session session(model.program, *model.executor);
  session.prefill(ids);
  const graph::Shape& shape = model.program.graph->shape;
  for (int l = 0; l < shape.layer_count; ++l) {
    if (shape.layers[l].kv_layer != l) continue;
    std::vector<float> keys, values;
    for (int head = 0; head < shape.layers[l].kv_heads; ++head)
      for (int p = 0; p < static_cast<int>(ids.size()); ++p) {
        std::vector<float> k(shape.layers[l].head_dim), v(k.size());
        model.executor->read_kv(0, l, head, p, k, v);
        keys.insert(keys.end(), k.begin(), k.end());
        values.insert(values.end(), v.begin(), v.end());
      }
    const std::string layer = std::to_string(l);
    expect(close(keys, expected.floats("prompt1.k" + layer))) << "keys of layer " << l;
    expect(close(values, expected.floats("prompt1.v" + layer))) << "values of layer " << l;
  }
}

const suite<"fixtures"> fixtures = [] {
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures + "/models")) {
    const std::string folder = entry.path().string(), name = entry.path().filename().string();
    if (kSlowBuild && !name.ends_with("-bf16") && !name.ends_with("-4bit")) continue;
    boost::ut::test(name + " computes what the reference computes") = [folder] {
      Loaded model(folder, {.context_tokens = 256});
      const Expected expected(folder + "/expected.safetensors");
      for (int prompt = 0; prompt < 3; ++prompt) check_prompt(model, expected, prompt);
    };
    if (name.ends_with("bf16"))
      boost::ut::test(name + " caches the keys and values that the reference caches") = [folder] {
        Loaded model(folder, {.context_tokens = 256});
        check_cache(model, Expected(folder + "/expected.safetensors"));
      };
  }

  "pebble continues its prompts of text as recorded"_test = [] {
    Loaded model(kRoot + "/models/pebble", {.context_tokens = 512});
    simdjson::dom::parser parser;
    int prompts = 0;
    for (const simdjson::dom::element entry : parser.load(kRoot + "/models/pebble/golden.json")) {
      if (entry["images"].error() == simdjson::SUCCESS) continue;
      const auto ids = [&](const char* key) {
        std::vector<std::int32_t> list;
        for (const std::int64_t id : entry[key]) list.push_back(static_cast<std::int32_t>(id));
        return list;
      };
      auto expected = ids("greedy");
      if (kSlowBuild || link::backends().front()->name != "cpu") expected.resize(std::min<std::size_t>(expected.size(), 5));
      decode::Session session(model.program, *model.executor);
      session.prefill(ids("input_ids"));
      expect(decode::greedy(session, static_cast<std::int32_t>(expected.size())) == expected) << "prompt " << prompts;
      ++prompts;
      if (is_slow_device() && prompts == 3) break;
    }
    expect(prompts == (is_slow_device() ? 3 : 8));
  };
};

}  // namespace
}  // namespace lapidary::test::fixtures_test
