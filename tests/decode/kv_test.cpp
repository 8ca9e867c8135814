// K/V as codes in whole models: what one store rests on, budgets of quality, drafts as good as ever.
#include <boost/ut.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "decode/generate.hpp"
#include "decode/lookup.hpp"
#include "support/cases.hpp"
#include "support/kv_logits.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"
#include "support/program.hpp"
#include "support/random.hpp"
#include "support/slow_build.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::test::kv_test {
namespace {

using namespace boost::ut;

const link::KvFormat* const kCoded[] = {&link::kKvQ8, &link::kKvQ4};

// Kullback-Leibler divergence in nats, and how often the likeliest token is the same: means over positions.
struct Quality {
  double divergence = 0, agreement = 0;
};
Quality compare(const Logits& exact, const Logits& other) {
  const auto log_softmax = [](const std::vector<float>& logits) {
    const double most = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float x : logits) sum += std::exp(x - most);
    std::vector<double> result;
    for (const float x : logits) result.push_back(x - most - std::log(sum));
    return result;
  };
  Quality quality;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto p = log_softmax(exact[i]), q = log_softmax(other[i]);
    for (std::size_t token = 0; token < p.size(); ++token) quality.divergence += std::exp(p[token]) * (p[token] - q[token]);
    quality.agreement += std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin();
  }
  quality.divergence /= static_cast<double>(exact.size());
  quality.agreement /= static_cast<double>(exact.size());
  return quality;
}

std::vector<std::int32_t> pebble_text(std::size_t tokens) {
  const text::Tokenizer tokenizer = text::Tokenizer::open(kRoot + "/models/pebble");
  auto ids = tokenizer.encode("<bos>" + read_all(kRoot + "/LICENSE"));
  expect(fatal(ids.size() >= tokens));
  ids.resize(tokens);
  return ids;
}

// The golden prompts of text of pebble and how it goes on.
struct Continued {
  std::vector<std::int32_t> prompt, greedy;
  double margin = 0;  // the least distance to a tie
};
std::vector<Continued> golden_prompts() {
  std::vector<Continued> all;
  simdjson::dom::parser parser;
  for (const simdjson::dom::element entry : parser.load(kRoot + "/models/pebble/golden.json")) {
    if (entry["images"].error() == simdjson::SUCCESS) continue;
    Continued& one = all.emplace_back();
    for (const std::int64_t id : entry["input_ids"]) one.prompt.push_back(static_cast<std::int32_t>(id));
    one.margin = entry["min_margin"];
    for (const std::int64_t id : entry["greedy"]) one.greedy.push_back(static_cast<std::int32_t>(id));
  }
  expect(fatal(all.size() == 8u));
  return all;
}

// The share of first drafts of pebble's assistant that its target chose, at the places of its golden texts: the same ones for each kind.
double acceptance(const link::KvFormat* kv) {
  const Pair pair = pebble_pair();
  Loaded model(pair.target, {.context_tokens = 512, .kv = kv}, 2, pair.assistant);
  std::int64_t drafted = 0, accepted = 0;
  for (const Continued& text : golden_prompts()) {
    decode::Session session(model.program, *model.executor);
    std::vector<decode::Speculation::SourceKind> sources;
    sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
    decode::Speculation speculation(std::move(sources), 1);
    std::vector<std::int32_t> before = text.prompt;
    for (const std::int32_t token : text.greedy) {
      const std::int32_t kept = session.keep_common_prefix(before);
      decode::Generation generation(session, std::span(before).subspan(static_cast<std::size_t>(kept)), {.max_tokens = 3, .speculation = &speculation});
      for (int i = 0; i < 2; ++i) static_cast<void>(generation.next());
      drafted += generation.stats().drafted[0];
      accepted += generation.stats().accepted[0];
      before.push_back(token);
    }
  }
  return static_cast<double>(accepted) / static_cast<double>(drafted);
}

// Bytes that are resident and not mapped from files; 0 where the system does not tell.
std::int64_t resident_bytes() {
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  return 0;
}

// Texts of so many tokens, one for each seed, in one session.
std::vector<std::vector<std::int32_t>> long_texts(Loaded& model, std::int32_t tokens, int seeds, bool drafts) {
  std::vector<std::vector<std::int32_t>> all;
  for (int seed = 1; seed <= seeds; ++seed) {
    decode::Session session(model.program, *model.executor);
    std::vector<decode::Speculation::SourceKind> sources;
    sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
    sources.push_back({[=] { return std::make_unique<decode::Lookup>(tokens + 64); }, {}});
    decode::Speculation speculation(std::move(sources), 4);
    decode::GenerateOptions options{.sampling = {.temperature = 1.0f, .top_k = 20, .seed = static_cast<std::uint64_t>(seed)}, .max_tokens = tokens};
    if (drafts) options.speculation = &speculation;
    const std::vector<std::int32_t> prompt = {2, 9, 40 + seed, 77};
    decode::Generation generation(session, prompt, std::move(options));
    auto& text = all.emplace_back();
    while (const auto token = generation.next()) text.push_back(*token);
    expect(text.size() == static_cast<std::size_t>(tokens));
  }
  return all;
}

const suite<"kv"> kv = [] {
  // What one store rests on: a key is its value times the norm, to the bit, but for the pairs that turn.
  for (const char* name : {"moe-bf16", "unified-bf16"})
    boost::ut::test(std::string(name) + " has keys that are made from values") = [name] {
      Loaded model(kFixtures + "/models/" + name, {.context_tokens = 256});
      const link::Program coded = Loaded::load(kFixtures + "/models/" + name, {.context_tokens = 256, .kv = &link::kKvQ8});
      const graph::Shape& shape = model.program.graph->shape;
      decode::Session session(model.program, *model.executor);
      Random random(3);
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 150; ++i) tokens.push_back(4 + random.below(240));
      session.prefill(tokens);
      int layers = 0;
      for (int l = 0; l < shape.layer_count; ++l) {
        const link::KvStores& stores = coded.plan.kv[static_cast<std::size_t>(l)].stores;
        if (!stores.one) continue;
        ++layers;
        const std::size_t d = static_cast<std::size_t>(shape.layers[l].head_dim), pairs = static_cast<std::size_t>(stores.keys) / 2;
        const auto agrees = [&](std::size_t begin, std::size_t other, int norm_layer) {
          for (int p = 0; p < 150; ++p) {
            std::vector<float> k(d), v(d), turned, made(d);
            model.executor->read_kv(0, l, 0, p, k, v);
            for (const std::size_t first : {begin, other}) turned.insert(turned.end(), k.begin() + static_cast<std::ptrdiff_t>(first), k.begin() + static_cast<std::ptrdiff_t>(first + pairs));
            link::make_key(v, turned, link::key_norm(model.program, norm_layer), made);
            if (std::memcmp(made.data(), k.data(), d * sizeof(float)) != 0) return false;
          }
          return true;
        };
        expect(agrees(0, d / 2, l)) << "layer" << l;
        expect(!agrees(1, d / 2 + 1, l)) << "shifted pairs, layer" << l;
        expect(!agrees(0, pairs, l)) << "neighbours as pairs, layer" << l;
        expect(!agrees(0, d / 2, l == 0 ? 1 : l - 1)) << "another layer's norm, layer" << l;
      }
      expect(layers > 0) << name;
    };

  "pebble keeps to the budgets of quality"_test = [] {
    const auto tokens = pebble_text(kSlowBuild ? 150 : 1000);
    const std::string folder = kRoot + "/models/pebble";
    const Logits exact = logits_of(folder, nullptr, tokens);
    for (const auto& [format, divergence, agreement] : {std::tuple{&link::kKvQ8, 1.5e-3, 0.99}, {&link::kKvQ4, 1.5e-2, 0.94}}) {
      const Quality quality = compare(exact, logits_of(folder, format, tokens));
      std::printf("kv: pebble %s: %zu positions, divergence %.6f nats, likeliest token the same %.2f %%\n", std::string(format->name).c_str(), tokens.size(), quality.divergence, 100 * quality.agreement);
      expect(quality.divergence <= divergence && quality.agreement >= agreement) << format->name;
    }
  };

  "in the fast mode codes stray no further from numbers than the mode itself does"_test = [] {
    const auto tokens = pebble_text(kSlowBuild ? 150 : 600);
    const std::string folder = kRoot + "/models/pebble";
    const Logits exact = logits_of(folder, nullptr, tokens), fast = logits_of(folder, nullptr, tokens, link::Numeric::fast);
    const double itself = compare(exact, fast).divergence;
    const Quality q8 = compare(exact, logits_of(folder, &link::kKvQ8, tokens, link::Numeric::fast));
    std::printf("kv: pebble in the fast mode: divergence %.5f nats, with q8 %.5f\n", itself, q8.divergence);
    expect(q8.divergence < 1.3 * itself + 1e-3);
  };

  // But for a text with two tokens that are 0.017 apart, closer than codes of 8 bits tell.
  "pebble continues its prompts as recorded, with q8"_test = [] {
    int texts = 0;
    Loaded model(kRoot + "/models/pebble", {.context_tokens = 512, .kv = &link::kKvQ8}, 2);
    for (const Continued& text : golden_prompts()) {
      if (text.margin < 0.02) continue;
      ++texts;
      auto expected = text.greedy;
      if (kSlowBuild) expected.resize(std::min<std::size_t>(expected.size(), 5));
      decode::Session session(model.program, *model.executor);
      session.prefill(text.prompt);
      expect(decode::greedy(session, static_cast<std::int32_t>(expected.size())) == expected);
    }
    expect(texts == 7_i);
  };

  // 20000 tokens each, windows wrapped hundreds of times.
  if (std::getenv("LAPIDARY_FULL"))
    for (const auto& [number, tokens, seeds] : {std::tuple{5, 4000, 5}, {3, 4000, 5}, {6, 8000, 3}})
      boost::ut::test("long texts are the same with drafts and without, in the same memory, " + std::to_string(number)) = [=] {
        const Pair pair = number < 6 ? fixture_pairs()[static_cast<std::size_t>(number)] : pebble_pair();
        Loaded model(pair.target, {.context_tokens = tokens + 64, .numeric = link::Numeric::fast, .kv = &link::kKvQ8}, 2, pair.assistant);
        const auto plain = long_texts(model, tokens, seeds, false);
        const std::int64_t before = resident_bytes();
        const bool same = long_texts(model, tokens, seeds, true) == plain;
        expect(same) << pair.name;
        expect(resident_bytes() <= before + (4 << 20)) << pair.name << before << resident_bytes();
      };

  if (!kSlowBuild) "drafts of the assistant are accepted as often"_test = [] {
    const double usual = acceptance(nullptr);
    for (const link::KvFormat* format : kCoded) {
      const double here = acceptance(format);
      std::printf("kv: pebble's assistant: %.1f %% of first drafts accepted, with %s %.1f %%\n", 100 * usual, std::string(format->name).c_str(), 100 * here);
      expect(here > usual - 0.01) << format->name;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::kv_test
