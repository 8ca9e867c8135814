// The promise: the same tokens and log probabilities with any drafter, any number of drafts, at any temperature, with
// penalties, schemas and tool calls, as without drafts. A set of cases in which every two properties meet, at least kRounds
// rounds; with LAPIDARY_FULL in the environment, all cases besides.
#include <boost/ut.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "decode/generate.hpp"
#include "decode/logprobs.hpp"
#include "decode/lookup.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"
#include "support/random.hpp"
#include "support/slow_build.hpp"
#include "support/test_drafts.hpp"
#include "text/grammar.hpp"
#include "text/grammar_vocabulary.hpp"

namespace lapidary::test::identity_test {
namespace {

using namespace boost::ut;
using decode::Constraint;
using decode::Speculation;

constexpr int kTokens = kSlowBuild ? 40 : 320;
constexpr std::int64_t kRounds = kSlowBuild ? 1'000 : 10'000;

enum class Setting { greedy, warm, usual, penalties, schema, calls };
enum class Source { mtp, dflash, lookup, random, wrong, oracle, automatic };
constexpr const char* kSettingNames[] = {"greedy", "T 0.7", "T 1 top-k top-p", "penalties", "schema", "calls"};
constexpr const char* kSourceNames[] = {"mtp", "dflash", "lookup", "random", "wrong", "oracle", "auto"};

// Too many items to be finished within kTokens.
constexpr std::string_view kSchema = R"({"type":"array","minItems":900,"maxItems":1000,"items":{"anyOf":[
  {"type":"object","properties":{"name":{"type":"string","maxLength":9},"age":{"type":"integer","minimum":0,"maximum":99}},
   "required":["name","age"],"additionalProperties":false},{"type":"boolean"},{"enum":["red","green"]}]}})";
constexpr std::string_view kTools = R"([{"type":"function","function":{"name":"look","parameters":{"type":"object",
  "properties":{"at":{"type":"string","maxLength":7},"times":{"type":"integer","minimum":1,"maximum":40}},
  "required":["at"]}}},{"type":"function","function":{"name":"stop"}}])";

// A pair and everything its requests need.
struct Subject {
  Pair pair;
  std::vector<std::int32_t> prompt;
  std::shared_ptr<const text::Grammar> schema, calls;
  decode::Markers call;
  std::map<std::tuple<int, link::Numeric, const link::KvFormat*>, std::unique_ptr<Loaded>> models;

  Loaded& model(int threads, link::Numeric numeric, const link::KvFormat* kv) {
    auto& model = models[{threads, numeric, kv}];
    const link::Options options{.context_tokens = 512, .chunk_rows = 16, .numeric = numeric, .kv = kv};
    if (!model) model = std::make_unique<Loaded>(pair.target, options, threads, pair.assistant, pair.dflash);
    return *model;
  }
};

// The tiny models' tokens stand for single bytes here; those that no UTF-8 has are special, but for the quote of tool calls.
Subject tiny_subject(const Pair& pair) {
  static const std::string bytes = [] {
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    return all;
  }();
  std::vector<text::Vocabulary::Piece> pieces;
  for (int id = 0; id < 256; ++id)
    pieces.push_back({std::string_view(bytes).substr(id, 1),
                      id < 0xf5 || id == 0xff ? text::PieceKind::byte : text::PieceKind::special});
  const auto vocabulary = std::make_shared<const text::Vocabulary>(pieces);
  Subject subject;
  subject.pair = pair;
  subject.call = {0xf5, 0xf6};
  subject.schema = text::Grammar::schema(vocabulary, text::parse_json(kSchema, "schema"));
  subject.calls = text::Grammar::calls(vocabulary, text::parse_json(kTools, "tools"));
  Random random(5);
  for (int i = 0; i < 30; ++i) subject.prompt.push_back(4 + random.below(240));
  return subject;
}

Subject pebble_subject() {
  Subject subject;
  subject.pair = pebble_pair();
  const text::Tokenizer tokenizer = text::Tokenizer::open(subject.pair.target);
  subject.call = {*tokenizer.special("<|tool_call>"), *tokenizer.special("<tool_call|>")};
  subject.schema = text::Grammar::schema(tokenizer, text::parse_json(kSchema, "schema"));
  subject.calls = text::Grammar::calls(tokenizer, text::parse_json(kTools, "tools"));
  subject.prompt = tokenizer.encode("<bos><|turn>user\nGive me JSON for 3 people.<turn|>\n<|turn>model\n");
  return subject;
}

decode::GenerateOptions options_of(const Subject& subject, Setting setting) {
  decode::GenerateOptions options{.max_tokens = kTokens, .wants_logits = true};
  graph::Sampling& sampling = options.sampling;
  const std::pair<std::int32_t, float>* open_call = nullptr;
  static std::map<std::int32_t, std::pair<std::int32_t, float>> biases;
  switch (setting) {
    case Setting::greedy: break;
    case Setting::warm: sampling = {.temperature = 0.7f, .seed = 71}; break;
    case Setting::usual: sampling = {.temperature = 1.0f, .top_k = 64, .top_p = 0.95f, .seed = 72}; break;
    case Setting::penalties:
      sampling = {.repetition = 1.2f, .presence = 0.3f, .frequency = 0.5f, .temperature = 0.8f, .min_p = 0.02f, .seed = 73};
      break;
    case Setting::schema:
      sampling = {.temperature = 1.0f, .top_k = 64, .top_p = 0.95f, .seed = 74};
      options.constraint = Constraint({.answer_grammar = subject.schema});
      break;
    case Setting::calls:
      open_call = &(biases[subject.call.open] = {subject.call.open, 9.0f});
      sampling = {.bias = {open_call, 1}, .temperature = 1.0f, .seed = 75};
      options.constraint = Constraint({.call_grammar = subject.calls, .call = subject.call});
      break;
  }
  return options;
}

struct Output {
  std::vector<std::int32_t> ids;
  std::vector<float> logprobs;  // the chosen one and the two likeliest, of each token
  std::int64_t rounds = 0, accepted = 0;
};

Output produce(Subject& subject, Setting setting, Loaded& model, Speculation* speculation) {
  decode::Session session(model.program, *model.executor);
  decode::GenerateOptions options = options_of(subject, setting);
  options.speculation = speculation;
  decode::Generation generation(session, subject.prompt, std::move(options));
  Output output;
  while (const auto token = generation.next()) {
    output.ids.push_back(*token);
    const decode::Logprobs logprobs = decode::logprobs(generation.logits(), *token, 2);
    output.logprobs.push_back(logprobs.chosen.logprob);
    for (const auto& top : logprobs.top) output.logprobs.push_back(top.logprob);
  }
  if (speculation) {
    output.rounds = generation.stats().rounds;
    output.accepted = generation.stats().tokens - output.rounds;
  }
  return output;
}

struct Case {
  int subject, setting, source, k, threads;
  link::Numeric numeric;
  const link::KvFormat* kv;  // null: the one of the mode
};

Speculation speculation_of(const Case& c, Subject& subject, const Output& plain) {
  std::vector<Speculation::SourceKind> sources;
  const auto add = [&](std::function<std::unique_ptr<decode::DraftSource>()> make) { sources.push_back({std::move(make), {}}); };
  const auto add_test = [&](TestDraftKind kind) {
    const auto vocab = subject.model(c.threads, c.numeric, c.kv).program.graph->shape.vocab;
    add([=, &plain, &subject, k = static_cast<std::uint64_t>(c.k)] {
      return std::make_unique<TestDrafts>(kind, plain.ids, subject.prompt.size(), vocab, k);
    });
  };
  const auto add_assistant = [&] { add([] { return std::make_unique<decode::Assistant>(); }); };
  const auto add_dflash = [&] {
    const int block = subject.model(c.threads, c.numeric, c.kv).program.graph->dflash->block;
    sources.push_back({[block] { return std::make_unique<decode::DFlash>(block); }, {.block = true}});
  };
  const auto add_lookup = [&] { add([] { return std::make_unique<decode::Lookup>(512); }); };
  switch (static_cast<Source>(c.source)) {
    case Source::mtp: add_assistant(); break;
    case Source::dflash: add_dflash(); break;
    case Source::lookup: add_lookup(); break;
    case Source::random: add_test(TestDraftKind::random); break;
    case Source::wrong: add_test(TestDraftKind::wrong); break;
    case Source::oracle: add_test(TestDraftKind::oracle); break;
    case Source::automatic:
      add_assistant();
      add_dflash();
      add_lookup();
      return Speculation(std::move(sources));
  }
  return Speculation(std::move(sources), c.k);
}

constexpr int kTinyPairs = 6;
constexpr std::array kSizes = {kTinyPairs + 1, 6, 7, 7, 2, 2, 3};  // subjects, settings, sources, k - 1, threads - 1, numeric modes, K/V
constexpr const link::KvFormat* kKv[] = {nullptr, &link::kKvQ8, &link::kKvQ4};
constexpr int kProperties = kSizes.size();
using Values = std::array<int, kSizes.size()>;

std::vector<Values> all_cases() {
  std::vector<Values> all;
  Values at{};
  for (;;) {
    all.push_back(at);
    std::size_t digit = 0;
    while (digit < at.size() && ++at[digit] == kSizes[digit]) at[digit++] = 0;
    if (digit == at.size()) return all;
  }
}

// Cases in which any two values of any two properties meet: always the one of some random ones that adds most.
std::vector<Values> covering_cases() {
  std::map<std::array<int, 4>, bool> met;  // property, value, property, value
  const auto news = [&](const Values& c) {
    int count = 0;
    for (int a = 0; a < kProperties; ++a)
      for (int b = a + 1; b < kProperties; ++b) count += !met.contains({a, c[a], b, c[b]});
    return count;
  };
  std::size_t pairs = 0;
  for (int a = 0; a < kProperties; ++a)
    for (int b = a + 1; b < kProperties; ++b) pairs += static_cast<std::size_t>(kSizes[a]) * kSizes[b];
  Random random(1);
  std::vector<Values> cases;
  while (met.size() < pairs) {
    Values best{};
    int most = -1;
    for (int attempt = 0; attempt < 400; ++attempt) {
      Values c;
      for (std::size_t i = 0; i < c.size(); ++i) c[i] = random.below(kSizes[i]);
      if (const int count = news(c); count > most) best = c, most = count;
    }
    if (most == 0) continue;
    for (int a = 0; a < kProperties; ++a)
      for (int b = a + 1; b < kProperties; ++b) met[{a, best[a], b, best[b]}] = true;
    cases.push_back(best);
  }
  return cases;
}

// Plays cases and counts what happened in them.
class Checker {
 public:
  void check(const Values& values) {
    const Case c{values[0], values[1], values[2], values[3] + 1, values[4] + 1, static_cast<link::Numeric>(values[5]), kKv[values[6]]};
    if (kSlowBuild && c.subject == kTinyPairs && c.k != 4) return;  // pebble: once with each drafter or so
    Subject& subject = subject_of(c.subject);
    const auto setting = static_cast<Setting>(c.setting);
    Output& expected = plain_[{c.subject, c.setting, c.numeric, c.kv}];
    if (expected.ids.empty()) expected = produce(subject, setting, subject.model(1, c.numeric, c.kv), nullptr);
    expect(fatal(expected.ids.size() == kTokens));
    Speculation speculation = speculation_of(c, subject, expected);
    const Output output = produce(subject, setting, subject.model(c.threads, c.numeric, c.kv), &speculation);
    const bool same = output.ids == expected.ids && output.logprobs.size() == expected.logprobs.size() &&
                      std::memcmp(output.logprobs.data(), expected.logprobs.data(), output.logprobs.size() * sizeof(float)) == 0;
    expect(same) << subject.pair.name << kSettingNames[c.setting] << kSourceNames[c.source] << "k" << c.k << "threads"
                 << c.threads << "mode" << values[5] << "K/V" << values[6];
    ++runs_;
    rounds_ += output.rounds;
    accepted_[c.source] += output.accepted;
  }

  std::int64_t rounds() const { return rounds_; }

  // The cases were what they were meant to be.
  void finish(const std::string& name) {
    std::printf("identity: %s: %lld runs, %lld rounds\n", name.c_str(), static_cast<long long>(runs_),
                static_cast<long long>(rounds_));
    std::fflush(stdout);
    // What `auto` does depends on the clock.
    for (const Source source : {Source::mtp, Source::dflash, Source::lookup, Source::random, Source::oracle})
      expect(accepted_[static_cast<std::size_t>(source)] > 0) << name << kSourceNames[static_cast<std::size_t>(source)];
    expect(accepted_[static_cast<std::size_t>(Source::wrong)] == 0_i64) << name;
    std::ptrdiff_t calls = 0;
    for (const auto& [key, output] : plain_)
      if (static_cast<Setting>(std::get<1>(key)) == Setting::calls)
        calls += std::ranges::count(output.ids, subject_of(std::get<0>(key)).call.close);
    expect(calls > 0) << name << "made no call";
  }

 private:
  Subject& subject_of(int number) {
    auto& subject = subjects_[number];
    if (!subject) subject = std::make_unique<Subject>(number < kTinyPairs ? tiny_subject(fixture_pairs()[number]) : pebble_subject());
    return *subject;
  }

  std::map<int, std::unique_ptr<Subject>> subjects_;
  std::map<std::tuple<int, int, link::Numeric, const link::KvFormat*>, Output> plain_;  // by subject, setting, mode and K/V
  std::int64_t runs_ = 0, rounds_ = 0;
  std::array<std::int64_t, 7> accepted_{};       // drafts, by source
};

const suite<"identity"> identity = [] {
  "any drafts, the same tokens and log probabilities"_test = [] {
    Checker checker;
    for (auto c : covering_cases()) {
      if (c[0] == kTinyPairs && c[3] != 3) c[5] = static_cast<int>(link::Numeric::fast);  // pebble is slow in the exact mode
      checker.check(c);
    }
    Random random(2);
    while (checker.rounds() < kRounds) {  // of the small models
      Values c;
      for (std::size_t i = 0; i < c.size(); ++i) c[i] = random.below(kSizes[i]);
      c[0] = random.below(kTinyPairs);
      checker.check(c);
    }
    checker.finish("every two properties");
  };

  if (!std::getenv("LAPIDARY_FULL")) return;
  for (int subject = 0; subject < kSizes[0]; ++subject)
    boost::ut::test("every combination, subject " + std::to_string(subject)) = [subject] {
      Checker checker;
      for (const auto& c : all_cases())
        if (c[0] == subject) checker.check(c);
      checker.finish("subject " + std::to_string(subject));
    };
};

}  // namespace
}  // namespace lapidary::test::identity_test
