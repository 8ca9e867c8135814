// A sampled text is the same text however its tokens are computed: one by one or as verified drafts, right or wrong ones, at
// every width, on any number of threads.
#include <boost/ut.hpp>

#include <cstring>

#include "decode/logprobs.hpp"
#include "support/cases.hpp"
#include "support/model.hpp"
#include "support/random.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;

constexpr int kTokens = 40;
const std::vector<std::int32_t> kPrompt = {2, 17, 30, 41, 52, 17, 63, 74, 85, 96, 30, 41};

struct Setting {
  const char* name;
  graph::Sampling sampling;
  bool masked = false;
};

std::vector<Setting> settings() {
  static const std::vector<std::int32_t> suppressed = {0, 1, 2, 3, 999999};
  static const std::vector<std::pair<std::int32_t, float>> bias = {{20, 2.0f}, {40, -3.0f}};
  return {
      {"temperature 0", {}},
      {"temperature only", {.temperature = 1.0f, .seed = 11}},
      {"top-k and top-p", {.temperature = 1.0f, .top_k = 64, .top_p = 0.95f, .seed = 12}},
      {"min-p", {.temperature = 1.3f, .min_p = 0.05f, .seed = 13}},
      {"penalties", {.repetition = 1.2f, .presence = 0.3f, .frequency = 0.5f, .temperature = 0.8f, .top_p = 0.9f, .seed = 14}},
      {"penalties at temperature 0", {.repetition = 1.5f, .frequency = 0.2f}},
      {"all", {suppressed, bias, 1.1f, 0.1f, 0.1f, 1.0f, 40, 0.95f, 0.01f, 15, 3}, true},
  };
}

struct Text {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
};

// Generates in rounds of `width` rows. The drafts are those of `known`, every `wrong_every`-th replaced by another token.
Text generate(const std::string& folder, const Setting& setting, int width, int threads, const std::vector<std::int32_t>& known,
              int wrong_every) {
  Loaded model(folder, {.context_tokens = 256}, threads);
  decode::Session session(model.program, *model.executor);
  const int vocab = session.vocab();
  Random random(3);
  std::vector<std::vector<std::uint32_t>> masks(kTokens + 8);  // by index, as a grammar would give them
  for (auto& mask : masks) {
    mask.resize((vocab + 31) / 32);
    for (std::uint32_t& word : mask) word = static_cast<std::uint32_t>(random.bits() | random.bits());
  }
  std::vector<std::int32_t> counts(vocab, 0);
  for (const std::int32_t token : kPrompt) ++counts[token];

  Text text;
  std::vector<graph::SelectRow> rows;
  graph::Selection selection{setting.sampling, counts, {}};
  // Row i of a round chooses the token after its own, when the `i` before it are drafts.
  const auto select = [&](std::span<const std::int32_t> drafts, std::size_t emitted) {
    rows.clear();
    for (std::size_t i = 0; i <= drafts.size(); ++i)
      rows.push_back({static_cast<std::int64_t>(emitted + i), drafts.first(i),
                      setting.masked ? std::span<const std::uint32_t>(masks[emitted + i]) : std::span<const std::uint32_t>{}});
    selection.rows = rows;
    return &selection;
  };
  const auto take = [&](int output) {
    const std::int32_t token = session.next(output);
    text.tokens.push_back(token);
    text.logprobs.push_back(decode::logprobs(session.logits(output), token, 0).chosen.logprob);
    ++counts[token];
    return token;
  };

  session.prefill(kPrompt, select({}, 0));
  take(0);
  int drafted = 0;
  while (static_cast<int>(text.tokens.size()) < kTokens) {
    const std::size_t emitted = text.tokens.size();
    const int length = session.length();
    std::vector<std::int32_t> round = {text.tokens.back()};
    while (static_cast<int>(round.size()) < width && emitted + round.size() - 1 < known.size()) {
      const std::int32_t right = known[emitted + round.size() - 1];
      round.push_back(++drafted % wrong_every == 0 ? (right + 1) % vocab : right);
    }
    session.forward(round, select(std::span(round).subspan(1), emitted));
    std::size_t accepted = 0;
    while (true) {
      const std::int32_t token = take(static_cast<int>(accepted));
      if (accepted + 1 == round.size() || token != round[accepted + 1]) break;
      ++accepted;
    }
    session.rollback(length + 1 + static_cast<int>(accepted));
  }
  text.tokens.resize(kTokens);
  text.logprobs.resize(kTokens);
  return text;
}

bool same(const Text& a, const Text& b) {
  return a.tokens == b.tokens && std::memcmp(a.logprobs.data(), b.logprobs.data(), a.logprobs.size() * sizeof(float)) == 0;
}

const suite<"sampling"> sampling = [] {
  for (const char* name : {"dense-bf16", "moe-4bit"})
    for (const Setting& setting : settings())
      boost::ut::test(std::string(name) + ", " + setting.name + ": the same text with any drafts") = [name, setting] {
        const std::string folder = kFixtures + "/models/" + name;
        const Text plain = generate(folder, setting, 1, 1, {}, 1);
        for (int width = 2; width <= 8; ++width)
          expect(same(plain, generate(folder, setting, width, 1 + width % 2, plain.tokens, 5))) << "width" << width;
        expect(same(plain, generate(folder, setting, 8, 1, plain.tokens, 1000))) << "all drafts right";
        expect(same(plain, generate(folder, setting, 4, 2, plain.tokens, 1))) << "all drafts wrong";
      };

  "another seed, stream or setting is another text"_test = [] {  // the comparison above can fail
    const std::string folder = kFixtures + "/models/dense-bf16";
    const auto tokens = [&](graph::Sampling sampling) { return generate(folder, {"", sampling}, 1, 1, {}, 1).tokens; };
    const graph::Sampling base{.temperature = 1.0f, .seed = 1};
    graph::Sampling seed = base, stream = base, cold = base, penalised = base;
    seed.seed = 2;
    stream.stream = 1;
    cold.temperature = 0.0f;
    penalised.frequency = 1.0f;
    expect(tokens(base) == tokens(base));
    for (const graph::Sampling& other : {seed, stream, cold, penalised}) expect(tokens(base) != tokens(other));
  };

  "without a selection the largest logit is chosen"_test = [] {
    Loaded model(kFixtures + "/models/dense-bf16", {.context_tokens = 64});
    decode::Session session(model.program, *model.executor);
    session.prefill(kPrompt);
    const auto logits = session.logits();
    expect(session.next() == std::max_element(logits.begin(), logits.end()) - logits.begin());
  };
};

}  // namespace
}  // namespace lapidary::test
