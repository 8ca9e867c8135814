// Whole models on the Metal executor: the same bits for a row at every width, the same tokens with and without drafts, the same
// whatever the order in which the device runs what may overlap, and a round that costs the host the same at any depth.
#include <boost/ut.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "decode/generate.hpp"
#include "gpu/step.hpp"
#include "softmetal/softmetal.h"
#include "support/model.hpp"
#include "support/pairs.hpp"
#include "support/program.hpp"
#include "support/random.hpp"
#include "support/slow_build.hpp"
#include "support/slow_device.hpp"
#include "support/soft_prompts.hpp"
#include "support/test_drafts.hpp"
#include "text/value.hpp"

namespace lapidary::test::model_test {
namespace {

using namespace boost::ut;
using Tokens = std::vector<std::int32_t>;

constexpr int kTokens = kSlowBuild ? 16 : 72;
constexpr const char* kModels[] = {"dense-4bit", "moe-mixed", "ple-8bit", "unified-bf16"};
constexpr const char* kPipelines = "newComputePipelineStateWithDescriptor:options:reflection:error:";

Tokens random_tokens(int vocab, int count) {
  Random random(7);
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(random.below(vocab));
  return tokens;
}

// Logits of all tokens after the first, appended in rounds of these widths, over and over.
std::vector<std::vector<float>> rounds_of(Loaded& model, const Tokens& tokens, const std::vector<int>& widths) {
  decode::Session session(model.program, *model.executor);
  session.prefill(std::span(tokens).first(1));
  std::vector<std::vector<float>> logits;
  for (std::size_t round = 0; session.length() < static_cast<int>(tokens.size()); ++round) {
    const int first = session.length(), width = std::min(widths[round % widths.size()], static_cast<int>(tokens.size()) - first);
    session.forward(std::span(tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(width)));
    for (int i = 0; i < width; ++i) logits.emplace_back(session.logits(i).begin(), session.logits(i).end());
  }
  return logits;
}

std::vector<std::vector<float>> prompt_in_chunks(const std::string& folder, link::Numeric numeric, int chunk, const Tokens& tokens) {
  Loaded model(folder, {.context_tokens = 256, .chunk_rows = chunk, .numeric = numeric});
  decode::Session session(model.program, *model.executor);
  std::vector<std::vector<float>> logits;
  decode::Session::Observer observer;
  observer.window = [&](std::int32_t, std::int32_t count) {
    for (int i = 0; i < count; ++i) logits.emplace_back(session.logits(i).begin(), session.logits(i).end());
  };
  session.prefill_all(tokens, observer);
  return logits;
}

int different_rows(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  int different = a.size() != b.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    different += std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0;
  return different;
}

const suite<"metal rows"> rows = [] {
  for (const char* name : kModels)
    for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast}) {
      const std::string folder = kFixtures + "/models/" + name;
      const std::string label = std::string(name) + (numeric == link::Numeric::fast ? ", fast mode," : "");
      boost::ut::test(label + " has the same logits at every width of a round") = [=] {
        Loaded model(folder, {.context_tokens = 256, .numeric = numeric});
        const Tokens tokens = random_tokens(model.program.graph->shape.vocab, kTokens);
        const auto alone = rounds_of(model, tokens, {1});
        for (const std::vector<int>& widths : {std::vector<int>{8}, {2, 5, 3}, {7, 1, 4, 6}})
          expect(different_rows(rounds_of(model, tokens, widths), alone) == 0_i);
      };
      boost::ut::test(label + " has the same logits in every chunk of a prompt") = [=] {
        const Tokens tokens = random_tokens(200, 37);
        const auto together = prompt_in_chunks(folder, numeric, 256, tokens);
        for (const int chunk : {1, 7}) expect(different_rows(prompt_in_chunks(folder, numeric, chunk, tokens), together) == 0_i);
      };
    }
};

// pebble's continuation of a prompt, with drafts by `source` (none: the assistant), k at a time; k = 0: none.
Tokens continued(Loaded& model, const Tokens& prompt, const graph::Sampling& sampling, int tokens, int k,
                 decode::Speculation::SourceKind source = {[] { return std::make_unique<decode::Assistant>(); }, {}}) {
  std::vector<decode::Speculation::SourceKind> sources;
  if (k > 0) sources.push_back(std::move(source));
  decode::Speculation speculation(std::move(sources), k);
  decode::Session session(model.program, *model.executor);
  decode::GenerateOptions options{.max_tokens = tokens};
  options.sampling = sampling;
  if (k > 0) options.speculation = &speculation;
  decode::Generation generation(session, prompt, std::move(options));
  Tokens all;
  while (const auto token = generation.next()) all.push_back(*token);
  return all;
}

// Drafts in blocks by the DFlash drafter.
const decode::Speculation::SourceKind kBlocks{[] { return std::make_unique<decode::DFlash>(8); }, {.block = true}};

// A copy of the fixture whose tensors all begin at odd addresses: behind one byte that nobody asks for.
void write_at_odd_addresses(const std::string& name, const TemporaryFolder& folder) {
  const std::string from = kFixtures + "/models/" + name;
  const Checkpoint checkpoint = Checkpoint::open(from);
  const std::byte one{};
  std::vector<NamedTensor> tensors{{"aside", {DType::u8, {1}, std::span(&one, 1)}}};
  tensors.insert(tensors.end(), checkpoint.tensors().begin(), checkpoint.tensors().end());
  write_safetensors(folder.path("model.safetensors"), tensors);
  std::filesystem::copy_file(from + "/config.json", folder.path("config.json"));
}

const suite<"metal weights"> weights = [] {
  // Hugging Face has the gates and ups of an expert in one tensor.
  for (const char* name : {"dense-4bit", "moe-mixed", "moe-bf16"})
    boost::ut::test(std::string(name) + " has the same logits wherever its tensors lie") = [=] {
      const TemporaryFolder folder;
      write_at_odd_addresses(name, folder);
      const auto logits_of = [](const std::string& checkpoint) {
        Loaded model(checkpoint, {.context_tokens = 256});
        return rounds_of(model, random_tokens(200, 10), {3});
      };
      expect(different_rows(logits_of(folder.path("")), logits_of(kFixtures + "/models/" + name)) == 0_i);
    };
};

const suite<"metal drafts"> drafts = [] {
  "pebble says the same with and without drafts"_test = [] {
    const Pair pair = pebble_pair();
    Loaded model(pair.target, {.context_tokens = 512}, 1, pair.assistant);
    const Tokens prompt = text::Tokenizer::open(pair.target).encode("<bos><|turn>user\nGive me JSON for 3 people.<turn|>\n<|turn>model\n");
    const int many = kSlowBuild ? 10 : is_slow_device() ? 20 : 100, few = kSlowBuild ? 5 : is_slow_device() ? 8 : 30;
    for (const graph::Sampling& sampling :
         {graph::Sampling{}, graph::Sampling{.temperature = 1.0f, .top_k = 64, .top_p = 0.95f, .seed = 72}})
      expect(continued(model, prompt, sampling, many, 4) == continued(model, prompt, sampling, many, 0)) << "with the assistant";

    const graph::Sampling penalties{.repetition = 1.2f, .presence = 0.3f, .frequency = 0.5f, .temperature = 0.8f, .min_p = 0.02f, .seed = 73};
    const Tokens plain = continued(model, prompt, penalties, few, 0);
    for (const auto& [kind, k] : {std::pair{TestDraftKind::random, 7}, {TestDraftKind::wrong, 3}})
      expect(continued(model, prompt, penalties, few, k,
                       {[&, kind = kind] { return std::make_unique<TestDrafts>(kind, plain, prompt.size(), model.program.graph->shape.vocab, 3); },
                        {}}) == plain)
          << "with drafts that are wrong";
  };

  "the same is said with and without blocks, by one drafter or two"_test = [] {
    const Pair pair = fixture_pairs()[1];
    Loaded model(pair.target, {.context_tokens = 256}, 1, pair.assistant, pair.dflash);
    const Tokens prompt = random_tokens(200, 40);
    const int many = kSlowBuild ? 10 : 30;
    for (const graph::Sampling& sampling :
         {graph::Sampling{}, graph::Sampling{.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .seed = 74},
          graph::Sampling{.repetition = 1.2f, .frequency = 0.5f, .temperature = 0.7f, .seed = 75}}) {
      const Tokens plain = continued(model, prompt, sampling, many, 0);
      for (const int k : {2, 7}) expect(continued(model, prompt, sampling, many, k, kBlocks) == plain) << "blocks of" << k;
    }
    // Now by one, now by the other, now none for longer than features are kept.
    const Tokens plain = continued(model, prompt, {}, kSlowBuild ? 30 : 120, 0);
    decode::Session session(model.program, *model.executor);
    session.prefill(prompt);
    Tokens mixed{session.next()};
    for (int round = 0; mixed.size() < plain.size(); ++round) {
      const int k = round > 10 && round < 80 ? 0 : 1 + round % 7;
      expect(fatal(session.begin_round({.count = k, .block = round % 3 != 1 && k > 0}, nullptr, {})));
      const auto result = session.end_round();
      const auto chosen = result.report.result.chosen();
      mixed.insert(mixed.end(), chosen.begin(), chosen.end());
    }
    mixed.resize(plain.size());
    expect(mixed == plain);
  };
};

const suite<"metal prompts"> prompts = [] {
  "what was generated is computed again when it comes back in a prompt"_test = [] {
    Loaded model(kFixtures + "/models/dense-4bit", {.context_tokens = 256});
    const Tokens prompt = random_tokens(200, 12);
    const auto logits_of = [](const decode::Session& session) {
      return std::vector<std::vector<float>>{{session.logits(0).begin(), session.logits(0).end()}};
    };
    decode::Session session(model.program, *model.executor);
    session.prefill(prompt);
    Tokens conversation = prompt;
    for (const std::int32_t token : decode::greedy(session, 9)) conversation.push_back(token);
    expect(eq(session.keep_common_prefix(conversation), 12));  // all of it is in the cache, but not as a prompt
    session.prefill(std::span(conversation).subspan(12));
    const auto kept = logits_of(session);

    decode::Session anew(model.program, *model.executor);
    anew.prefill(conversation);
    expect(different_rows(kept, logits_of(anew)) == 0_i);
  };
};

// Of a round over a context of so many ranges: in the layer, or outside of them.
int dispatch_count(const graph::Graph& graph, graph::SegmentId id, int layer, int kv_ranges) {
  const graph::Segment& segment = graph.segment(id);
  const link::Matrix matrix;  // how it is stored makes no difference
  int count = 0;
  for (std::size_t i = 0; i < segment.steps.size(); ++i) {
    if (segment.steps[i].layer != layer || gpu::goes_with_last(segment, i)) continue;
    if (segment.steps[i].op == graph::Op::keep_tap) continue;  // only where a drafter wants it
    gpu::BoundStep bound;
    bound.step = &segment.steps[i];
    bound.kv_ranges = kv_ranges;
    for (gpu::BoundMatrix& one : bound.matrices) one.matrix = &matrix;
    count += static_cast<int>(gpu::dispatches_of(bound).size());
  }
  return count;
}

const suite<"metal device"> device = [] {
  "what may overlap may run in any order, on any family of devices"_test = [] {
    const std::string arguments = " generate --temperature 0.8 --seed 5 --max-tokens 8 'Give me JSON for 2 people.'";
    const std::string program = std::string(LAPIDARY_PROGRAM) + "-metal";
    const Outcome in_order = shell(program + arguments);
    expect(in_order.status == 0_i) << in_order.err;
    for (const char* seed : {"1", "2", "3"}) {
      const Outcome shuffled = shell(std::string("SOFTMETAL_SEED=") + seed + " " + program + arguments);
      expect(shuffled.status == 0_i) << shuffled.err;
      expect(shuffled.out == in_order.out) << "seed" << seed;
    }
    // Older devices: one that has to be shown its pipelines, one that does not replay.
    for (const char* family : {"7", "5"}) {
      const Outcome older = shell(std::string("SOFTMETAL_FAMILY=") + family + " " + program + arguments);
      expect(older.status == 0_i) << older.err;
      expect(older.out == in_order.out) << "family" << family;
    }
  };

  "what may overlap in a tower may run in any order"_test = [] {
    const SoftFixture fixture("ple");
    const TemporaryFolder folder;
    const std::string images = kFixtures + "/images/", audio = kFixtures + "/audio/";
    const text::Value ids = text::Value::Array(fixture.prompts.at("image-audio").ids.begin(), fixture.prompts.at("image-audio").ids.end());
    folder.write("ids.json", text::to_json(text::Value::Array{text::Value::Object{
                                 {"ids", ids}, {"images", text::Value::Array{images + "wide-3x200.png"}}, {"audio", text::Value::Array{audio + "pcm16.wav"}}, {"image_tokens", 70}}}));
    const auto soft = [&](const std::string& environment) {
      const Outcome run = shell(environment + " " + LAPIDARY_PROGRAM + "-metal logits " + kFixtures + "/models/ple-bf16 --soft --ids " + folder.path("ids.json") + " -o " + folder.path("out"));
      expect(run.status == 0_i) << run.err;
      return read_all(folder.path("out"));
    };
    const std::string in_order = soft("");
    expect(!in_order.empty());
    for (int seed = 1; seed <= (kSlowBuild ? 1 : 2); ++seed) expect(soft("SOFTMETAL_SEED=" + std::to_string(seed)) == in_order) << "seed" << seed;
  };

  "a round costs the host the same at any depth"_test = [] {
    const auto messages_of_round = [](const std::string& folder) {
      Loaded model(folder, {.context_tokens = 256});
      decode::Session session(model.program, *model.executor);
      session.prefill(random_tokens(200, 5));
      session.forward(Tokens{7});
      const auto before = softmetal_message_count(nullptr);
      session.forward(Tokens{8});
      return softmetal_message_count(nullptr) - before;
    };
    const auto shallow = messages_of_round(kFixtures + "/models/dense-4bit"),
               deep = messages_of_round(kRoot + "/models/pebble");
    std::printf("metal: %lu messages of the host for a round\n", shallow);
    expect(shallow == deep && shallow > 0);
  };

  "no pipeline is made after the start, however long the context grows"_test = [] {
    const std::vector<Pair> pairs = fixture_pairs();
    const Pair& pair = *std::ranges::find(pairs, "ple-bf16", &Pair::name);
    Loaded model(pair.target, {.context_tokens = gpu::kKvRange + 64}, 1, pair.assistant);
    const auto made = softmetal_message_count(kPipelines);
    decode::Session session(model.program, *model.executor);
    const link::SlotMemory memory = session.memory();  // as if it had read a long text, whose K/V are zeros
    std::ranges::fill(memory.bytes, std::byte{});
    *memory.marks = {.written = gpu::kKvRange - 12};
    session.adopt(random_tokens(200, gpu::kKvRange - 12), {}, gpu::kKvRange - 12);
    const Tokens tokens = random_tokens(200, 8);
    Tokens said[2];  // past that length, rounds in flight: by the assistant's drafts, by none
    for (const int k : {3, 0}) {
      std::vector<decode::Speculation::SourceKind> sources;
      sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
      decode::Speculation speculation(std::move(sources), k);
      decode::Generation generation(session, tokens, {.max_tokens = 10, .speculation = &speculation});
      while (const auto token = generation.next()) said[k == 0].push_back(*token);
      expect(session.length() > gpu::kKvRange);
      session.rollback(gpu::kKvRange - 12);
    }
    expect(said[0] == said[1] && said[0].size() == 10);
    for (std::size_t width = 1; width <= 8; ++width) session.forward(std::span(tokens).first(width));
    expect(session.length() > gpu::kKvRange);
    session.rollback(0);
    session.prefill_all(tokens, {});
    expect(softmetal_message_count(kPipelines) == made && made > 0);
  };

  "no pipeline is made after the start for blocks either"_test = [] {
    const Pair pair = fixture_pairs().front();
    Loaded model(pair.target, {.context_tokens = 256}, 1, "", pair.dflash);
    const auto made = softmetal_message_count(kPipelines);
    decode::Session session(model.program, *model.executor);
    session.prefill(random_tokens(200, 60));
    for (int i = 0; i < 12; ++i) session.forward(Tokens{i});  // more rows than a round has
    for (int k = 1; k < 8; ++k) {
      expect(fatal(session.begin_round({.count = k, .block = true}, nullptr, {})));
      session.end_round();
    }
    session.prefill(random_tokens(200, 10));
    session.prefill_all(random_tokens(200, 10), {});
    expect(softmetal_message_count(kPipelines) == made && made > 0);
  };

  "a round is submitted before the host has waited for the one before it"_test = [] {
    const Pair pair = fixture_pairs().front();
    Loaded model(pair.target, {.context_tokens = 256}, 1, pair.assistant);
    for (const int k : {0, 3})
      for (const bool wants_logits : {false, true}) {
        std::vector<decode::Speculation::SourceKind> sources;
        sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
        decode::Speculation speculation(std::move(sources), k);
        decode::Session session(model.program, *model.executor);
        decode::Generation generation(session, random_tokens(200, 5),
                                      {.max_tokens = 60, .speculation = &speculation, .wants_logits = wants_logits});
        const auto before = softmetal_commits_ahead();
        while (generation.next()) {}
        const auto ahead = static_cast<std::int64_t>(softmetal_commits_ahead() - before), rounds = generation.stats().rounds;
        // Not the first one, nor with drafts those at the end that have room for fewer of them.
        const bool nearly_all = k == 0 ? ahead == rounds - 1 : ahead >= rounds - 4 && ahead < rounds;
        expect(rounds > 10 && (wants_logits ? ahead == 0 : nearly_all)) << k << rounds << ahead;
      }
  };

  "a run that fails ends its text with the device's error, with another one behind it"_test = [] {
    const Pair pair = fixture_pairs().front();
    for (const int k : {0, 3}) {
      Loaded model(pair.target, {.context_tokens = 256}, 1, pair.assistant);
      decode::Session session(model.program, *model.executor);
      const auto fails = [](const auto& call) {
        const auto error = error_of(call);
        return error && error->message() == "[metal] run, expected it to complete, got: a test wanted it to fail";
      };
      {
        std::vector<decode::Speculation::SourceKind> sources;
        sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
        decode::Speculation speculation(std::move(sources), k);
        decode::Generation generation(session, random_tokens(200, 5), {.max_tokens = 60, .speculation = &speculation});
        for (int i = 0; i < 6; ++i) generation.next();
        softmetal_fail_commit(1);
        const auto before = softmetal_commits_ahead();
        expect(fails([&] { while (generation.next()) {} })) << k;
        expect(softmetal_commits_ahead() - before == 2_ul && session.in_flight()) << k;  // the one that fails, and one more
        expect(fails([&] { generation.next(); })) << k;
      }
      expect(fails([&] { session.rollback(0); })) << k;  // as long as the executor lives
    }
  };

  "no layer has more dispatches than its budget, however long the context is"_test = [] {
    for (const graph::Graph* graph : graph::compiled_graphs()) {
      const bool plain = !graph->shape.experts && !graph->shape.ple_width;
      std::map<int, int> total;  // by ranges
      for (const int kv_ranges : {1, 128}) {
        for (const graph::SegmentId id : {graph::SegmentId::forward, graph::SegmentId::head, graph::SegmentId::select})
          total[kv_ranges] += dispatch_count(*graph, id, graph::kOutsideLayers, kv_ranges);
        for (int layer = 0; layer < graph->shape.layer_count; ++layer) {
          const int count = dispatch_count(*graph, graph::SegmentId::forward, layer, kv_ranges);
          expect(count <= (plain ? 9 : 12)) << graph->name << "layer" << layer << kv_ranges << "ranges:" << count;
          total[kv_ranges] += count;
        }
      }
      if (graph->name.starts_with("gemma"))
        std::printf("metal: %s, %d dispatches per token, %d beyond %d positions\n", graph->name.data(), total[1], total[128],
                    gpu::kKvRange);
    }
  };
};

}  // namespace
}  // namespace lapidary::test::model_test
