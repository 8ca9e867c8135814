// Rounds that begin before the one before them is known: the same tokens as one by one, wherever a text ends, and nothing
// left behind for the next text.
#include <boost/ut.hpp>

#include <algorithm>

#include "decode/generate.hpp"
#include "decode/lookup.hpp"
#include "support/ahead_executor.hpp"
#include "support/expected.hpp"
#include "support/generating.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"
#include "support/slow_build.hpp"
#include "support/slow_device.hpp"

namespace lapidary::test::ahead_test {
namespace {

using namespace boost::ut;
using decode::Generation;
using decode::GenerateOptions;
using decode::Session;
using decode::Speculation;
using decode::StopReason;
using Tokens = std::vector<std::int32_t>;

const Pair kPair = fixture_pairs().front();
const Expected kExpected(kPair.assistant + "/rounds.safetensors.xz");
const Tokens kPrompt = kExpected.ids("prompt0.input_ids"), kOther = kExpected.ids("prompt1.input_ids");
const graph::Sampling kUsual{.temperature = 1.0f, .top_k = 64, .top_p = 0.95f, .seed = 72};
const graph::Sampling kPenalties{.repetition = 1.2f, .presence = 0.3f, .frequency = 0.5f, .temperature = 0.8f, .seed = 73};
constexpr int kTokens = kSlowBuild ? 12 : 40;

// The model of most of these tests, and a backend that runs ahead.
struct Model : Loaded {
  AheadExecutor ahead{*executor};

  explicit Model(link::Options options, const Pair& pair = kPair) : Loaded(pair.target, options, 1, pair.assistant) {}
};

// A pair for 8192 positions instead of 4096, in this folder. Only its last layer sees all of them, and prompts need no more
// of that than K and V: long ones do not take long.
Pair long_pair(const TemporaryFolder& folder) {
  const std::vector<Pair> pairs = fixture_pairs();
  Pair pair = *std::ranges::find(pairs, "unified-bf16", &Pair::name);
  std::filesystem::copy(pair.target, folder.path("model"));
  std::ifstream file(pair.target + "/config.json");
  std::string config(std::istreambuf_iterator<char>(file), {});
  config.replace(config.find(": 4096,"), 7, ": 8192,");
  folder.write("model/config.json", config);
  pair.target = folder.path("model");
  return pair;
}

// The assistant drafts: k at a time, or as the policy likes.
Speculation drafting(std::optional<int> k, bool lookup = false) {
  std::vector<Speculation::SourceKind> sources;
  sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
  if (lookup) sources.push_back({[] { return std::make_unique<decode::Lookup>(256); }, {}});
  return Speculation(std::move(sources), k);
}

// Plain rounds, each of which is awaited before the next one begins.
Tokens one_by_one(Session& session, const Tokens& prompt, const graph::Sampling& sampling, int count) {
  const auto kept = static_cast<std::size_t>(session.keep_common_prefix(prompt));
  Tokens counts(static_cast<std::size_t>(session.vocab()));
  for (const std::int32_t token : prompt) ++counts[static_cast<std::size_t>(token)];
  graph::Request request{.sampling = sampling};
  if (sampling.penalises()) request.counts = counts;
  session.prefill(std::span(prompt).subspan(kept), &request);
  Tokens tokens = {session.next()};
  while (static_cast<int>(tokens.size()) < count && session.length() < session.capacity()) {
    session.begin_round({}, &request, {});
    tokens.push_back(session.end_round().report.result.tokens[0]);
  }
  return tokens;
}

Tokens one_by_one(Model& model, const Tokens& prompt, const graph::Sampling& sampling, int count) {
  Session session(model.program, *model.executor);
  return one_by_one(session, prompt, sampling, count);
}

// What follows a text in its session is what it would be in a new one. `other` was generated alone.
void expect_clean(Session& session, const Tokens& other, const std::string& after) {
  Speculation drafts = drafting(2);
  const auto kept = static_cast<std::size_t>(session.keep_common_prefix(kOther));
  Generation generation(session, std::span(kOther).subspan(kept),
                        {.sampling = kPenalties, .max_tokens = static_cast<int>(other.size()), .speculation = &drafts});
  expect(all_of(generation) == other) << "after" << after;
}

const suite<"rounds ahead"> rounds_ahead = [] {
  "the tokens are the recorded ones"_test = [] {
    Model model({.context_tokens = 256});
    for (const auto& [prompt, name] : {std::pair{kPrompt, "prompt0.greedy"}, {kOther, "prompt1.greedy"}}) {
      const Tokens greedy = kExpected.ids(name);
      for (const int k : {0, 4}) {
        Speculation drafts = drafting(k);
        Session session(model.program, model.ahead);
        Generation generation(session, prompt, {.max_tokens = static_cast<int>(greedy.size()), .speculation = &drafts});
        expect(all_of(generation) == greedy) << name << k;
      }
    }
  };

  "they are those of rounds one by one, with penalties and at any temperature"_test = [] {
    Model model({.context_tokens = 256});
    for (const graph::Sampling& sampling : {kUsual, kPenalties}) {
      const Tokens expected = one_by_one(model, kPrompt, sampling, kTokens);
      for (const auto k : {std::optional(0), std::optional(3), std::optional(7), std::optional<int>()}) {
        Speculation drafts = drafting(k, !k);
        Session session(model.program, model.ahead);
        Generation generation(session, kPrompt, {.sampling = sampling, .max_tokens = kTokens, .speculation = &drafts});
        expect(all_of(generation) == expected) << k.value_or(-1);
      }
    }
  };

  "wherever a text ends, its session is clean"_test = [] {
    Model model({.context_tokens = 256});
    const Tokens text = one_by_one(model, kPrompt, kPenalties, kTokens), other = one_by_one(model, kOther, kPenalties, 8);
    const auto first = [&](std::size_t count) {
      return Tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(count));
    };
    const auto holds = [&](const Session& session, std::size_t count) {
      Tokens expected = kPrompt;
      expected.insert(expected.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(count));
      // The last token may still be without K/V.
      const auto end = session.tokens().size() + 1 == expected.size() ? expected.end() - 1 : expected.end();
      return !session.in_flight() && std::ranges::equal(session.tokens(), std::span(expected.begin(), end));
    };
    Session session(model.program, model.ahead);
    const auto begin = [&] {
      const auto kept = static_cast<std::size_t>(session.keep_common_prefix(kPrompt));
      return std::span(kPrompt).subspan(kept);
    };
    for (const int k : {0, 3})
      for (const std::size_t count : {1u, 2u, 6u}) {
        Speculation drafts = drafting(k);
        GenerateOptions options{.sampling = kPenalties, .max_tokens = kTokens, .speculation = &drafts};
        const std::string at = std::to_string(count) + " tokens, k = " + std::to_string(k);
        {
          options.max_tokens = static_cast<int>(count);
          Generation generation(session, begin(), options);
          expect(all_of(generation) == first(count) && generation.reason() == StopReason::max_tokens) << at;
          expect(holds(session, count)) << at;
        }
        expect_clean(session, other, "max_tokens, " + at);
        options.max_tokens = kTokens;
        {
          const std::int32_t stop = text[count];
          const auto before = static_cast<std::size_t>(std::ranges::find(text, stop) - text.begin());
          options.stop_ids = {&stop, 1};
          Generation generation(session, begin(), options);
          expect(all_of(generation) == first(before) && generation.reason() == StopReason::stop_token) << at;
          expect(holds(session, before)) << at;
        }
        expect_clean(session, other, "a stop token, " + at);
        options.stop_ids = {};
        {
          std::atomic<bool> cancel = false;
          options.cancel = &cancel;
          Generation generation(session, begin(), options);
          Tokens tokens;
          while (const auto token = generation.next()) {
            tokens.push_back(*token);
            cancel = tokens.size() == count;
          }
          expect(tokens == first(count) && generation.reason() == StopReason::cancelled && holds(session, count)) << at;
        }
        expect_clean(session, other, "a cancelled one, " + at);
        options.cancel = nullptr;
        options.max_tokens = INT32_MAX;
        {
          Generation generation(session, begin(), options);
          for (std::size_t i = 0; i < count; ++i) expect(generation.next() == text[i]);
        }
        expect(holds(session, count)) << at;
        expect_clean(session, other, "one that was left, " + at);
      }
  };

  "a full context ends a text where it ends one by one"_test = [] {
    const auto tokens = static_cast<int>(kPrompt.size()) + 14;
    Model model({.context_tokens = tokens});
    const Tokens expected = one_by_one(model, kPrompt, {}, 1000);
    expect(eq(expected.size(), 15u));
    for (const int k : {0, 1, 3, 7}) {
      Speculation drafts = drafting(k);
      Session session(model.program, model.ahead);
      Generation generation(session, kPrompt, {.speculation = &drafts});
      expect(all_of(generation) == expected && generation.reason() == StopReason::context) << k;
      expect(eq(session.length(), tokens)) << k;
    }
  };

  // Backends may cut long contexts into pieces, more of them from some lengths on.
  // A slow device passes 2048 in a test of its own (metal/model_test.cpp).
  if (!is_slow_device()) "a text passes lengths of 2048 and 4096 while rounds are in flight"_test = [] {
    const TemporaryFolder folder;
    Model model({.context_tokens = 4160}, long_pair(folder));
    Session session(model.program, model.ahead);
    for (const std::size_t length : kSlowBuild ? std::vector<std::size_t>{2048} : std::vector<std::size_t>{2048, 4096}) {
      Tokens prompt;
      for (std::size_t i = 0; i < length - 6; ++i) prompt.push_back(kPrompt[i * i % kPrompt.size()]);
      const Tokens expected = one_by_one(session, prompt, kUsual, 20);
      for (const int k : {0, 3}) {
        Speculation drafts = drafting(k);
        const auto kept = static_cast<std::size_t>(session.keep_common_prefix(prompt));
        Generation generation(session, std::span(prompt).subspan(kept),
                              {.sampling = kUsual, .max_tokens = 20, .speculation = &drafts});
        expect(all_of(generation) == expected) << length << k;
      }
    }
  };

  "two sessions take turns"_test = [] {
    Model model({.context_tokens = 128, .sessions = 2});
    const Tokens text = one_by_one(model, kPrompt, kPenalties, 20), other_text = one_by_one(model, kOther, kPenalties, 20);
    Session first(model.program, model.ahead, 0), second(model.program, model.ahead, 1);
    Speculation drafts = drafting(3), others = drafting(0);
    Generation one(first, kPrompt, {.sampling = kPenalties, .max_tokens = 20, .speculation = &drafts});
    Generation two(second, kOther, {.sampling = kPenalties, .max_tokens = 20, .speculation = &others});
    for (std::size_t i = 0; i < 20; ++i) {
      expect(one.next() == text[i]) << i;
      expect(two.next() == other_text[i]) << i;
    }
  };

  "a text that follows another one does not see what that had in flight"_test = [] {
    Model model({.context_tokens = 128});
    Session session(model.program, model.ahead);
    Generation one(session, kPrompt, {});
    for (int i = 0; i < 4; ++i) one.next();
    Tokens expected(session.tokens().begin(), session.tokens().end());
    Generation two(session, kOther, {});
    two.turn();
    expected.insert(expected.end(), kOther.begin(), kOther.end());
    expect(std::ranges::equal(session.tokens(), expected));
  };

  "logits are those that the token was chosen from"_test = [] {
    Model model({.context_tokens = 128});
    for (const int k : {0, 3}) {
      Speculation drafts = drafting(k);
      Session session(model.program, model.ahead);
      Generation generation(session, kPrompt, {.max_tokens = 12, .speculation = &drafts, .wants_logits = true});
      while (const auto token = generation.next()) {
        const auto logits = generation.logits();
        expect(eq(std::ranges::max_element(logits) - logits.begin(), std::ptrdiff_t{*token})) << k;
      }
    }
  };
};

}  // namespace
}  // namespace lapidary::test::ahead_test
