// Drafters whose matrices have no numbers or any, or that propose what they find least likely, on any backend: the text is that of plain
// decoding, and they are soon left alone. A software device is slow: on a GPU the first of them is enough.
#include <boost/ut.hpp>

#include <fstream>

#include "decode/generate.hpp"
#include "numeric/bf16.hpp"
#include "support/expected.hpp"
#include "support/model.hpp"
#include "support/observed_executor.hpp"
#include "support/pairs.hpp"
#include "support/random.hpp"
#include "support/rows.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::bad_drafters_test {
namespace {

using namespace boost::ut;
using decode::Speculation;

bool is_cpu() { return link::backends().front()->name == "cpu"; }

const Pair kPair = fixture_pairs().front();
const std::vector<std::int32_t> kPrompt = Expected(kPair.assistant + "/rounds.safetensors.xz").ids("prompt0.input_ids");
const graph::Sampling kUsual{.temperature = 1.0f, .top_k = 64, .top_p = 0.95f, .seed = 72};

enum class Spoiled { no_numbers, random, contrary };
constexpr const char* kNames[] = {"no numbers", "random numbers", "a head that says the contrary"};

// A copy of a drafter in bfloat16.
void spoil(const std::string& from, const std::string& to, Spoiled how) {
  std::filesystem::create_directory(to);
  std::filesystem::copy(from + "/config.json", to);
  std::ifstream file(from + "/model.safetensors", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<NamedTensor> tensors = parse_safetensors(bytes_of(bytes), from);
  std::vector<std::vector<std::uint16_t>> values;
  Random random(7);
  for (NamedTensor& tensor : tensors) {
    std::vector<std::uint16_t>& all = values.emplace_back(tensor.tensor.bytes.size() / 2);
    std::memcpy(all.data(), tensor.tensor.bytes.data(), tensor.tensor.bytes.size());
    const bool is_matrix = tensor.tensor.shape.size() > 1, is_last_norm = ("." + tensor.name).ends_with(".norm.weight");
    for (std::uint16_t& value : all) {
      if (how == Spoiled::no_numbers && is_matrix) value = numeric::to_bf16(kNaN);
      if (how == Spoiled::random && is_matrix) value = numeric::to_bf16(static_cast<float>(random.uniform(-1, 1)));
      if (how == Spoiled::contrary && is_last_norm) value ^= 0x8000;
    }
    tensor.tensor.bytes = std::as_bytes(std::span(all));
  }
  write_safetensors(to + "/model.safetensors", tensors);
}

struct Output {
  std::vector<std::int32_t> ids;
  std::vector<float> logits;  // of those
  decode::SpeculationStats stats;

  bool same_bytes(const Output& other) const {
    return ids == other.ids && std::memcmp(logits.data(), other.logits.data(), logits.size() * sizeof(float)) == 0;
  }
};

Output produce(const Loaded& model, link::Executor& executor, const graph::Sampling& sampling, int tokens, Speculation* speculation) {
  decode::Session session(model.program, executor);
  decode::Generation generation(session, kPrompt, {.sampling = sampling, .max_tokens = tokens, .speculation = speculation, .wants_logits = true});
  Output output;
  while (const auto token = generation.next()) {
    output.ids.push_back(*token);
    output.logits.push_back(generation.logits()[static_cast<std::size_t>(*token)]);
  }
  output.stats = generation.stats();
  return output;
}

Speculation drafting(const Loaded& model, bool block, std::optional<int> k, Speculation::Clock clock = Speculation::steady_clock) {
  std::vector<Speculation::SourceKind> sources;
  if (block) sources.push_back({[most = model.program.graph->dflash->block] { return std::make_unique<decode::DFlash>(most); }, {.block = true}});
  else sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
  return Speculation(std::move(sources), k, std::move(clock));
}

const suite<"bad drafters"> bad_drafters = [] {
  for (const Spoiled how : {Spoiled::no_numbers, Spoiled::random, Spoiled::contrary}) {
    if (!is_cpu() && how != Spoiled::no_numbers) continue;
    boost::ut::test(std::string("drafters with ") + kNames[static_cast<int>(how)] + " change no byte and are soon left alone") = [how] {
      const TemporaryFolder folder;
      spoil(kPair.assistant, folder.path("assistant"), how);
      spoil(kPair.dflash, folder.path("dflash"), how);
      for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast}) {
        if (!is_cpu() && numeric == link::Numeric::exact) continue;
        const Loaded model(kPair.target, {.context_tokens = 256, .chunk_rows = 16, .numeric = numeric}, 2, folder.path("assistant"), folder.path("dflash"));
        for (const graph::Sampling& sampling : {graph::Sampling{}, kUsual}) {
          const int tokens = kSlowBuild || !is_cpu() ? 16 : 48;
          const Output plain = produce(model, *model.executor, sampling, tokens, nullptr);
          for (const bool block : {false, true}) {
            const auto where = [&] { return std::string(block ? "dflash" : "assistant") + " T " + std::to_string(sampling.temperature); };
            Speculation always = drafting(model, block, decode::kMaxDrafts);
            const Output drafted = produce(model, *model.executor, sampling, tokens, &always);
            expect(drafted.same_bytes(plain)) << where();
            expect(10 * drafted.stats.accepted[0] < drafted.stats.drafted[0]) << where() << drafted.stats.accepted[0];
            if (!is_cpu()) continue;
            // A clock by which every row of a step takes as long.
            double time_s = 0;
            ObservedExecutor observed(*model.executor, [&](const link::StepResult& result) { time_s += static_cast<double>(result.rows); });
            Speculation automatic = drafting(model, block, std::nullopt, [&] { return time_s; });
            const Output chosen = produce(model, observed, sampling, tokens, &automatic);
            expect(chosen.same_bytes(plain)) << where() << "automatic";
            const std::int64_t asked = chosen.stats.rounds_by_source[0];
            expect(asked > 0 && asked <= 8) << where() << asked << "of" << chosen.stats.rounds;
          }
        }
      }
    };
  }
};

}  // namespace
}  // namespace lapidary::test::bad_drafters_test
