// Rounds with drafts inside the loop: where they end, what they leave behind, what they count.
#include <boost/ut.hpp>

#include <numeric>

#include "decode/generate.hpp"
#include "decode/lookup.hpp"
#include "support/expected.hpp"
#include "support/generating.hpp"
#include "support/model.hpp"
#include "support/observed_executor.hpp"
#include "support/pairs.hpp"
#include "support/test_drafts.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::test::speculation_test {
namespace {

using namespace boost::ut;
using decode::Generation;
using decode::GenerateOptions;
using decode::Session;
using decode::Speculation;
using decode::StopReason;
using Tokens = std::vector<std::int32_t>;

const Pair kPair = fixture_pairs().front();
const Tokens kPrompt = Expected(kPair.assistant + "/rounds.safetensors.xz").ids("prompt0.input_ids");

Tokens plain_text(Loaded& model, int count) {
  Session session(model.program, *model.executor);
  Generation generation(session, kPrompt, {.max_tokens = count});
  return all_of(generation);
}

using Make = std::function<std::unique_ptr<decode::DraftSource>()>;
const Make kAssistant = [] { return std::make_unique<decode::Assistant>(); };

Speculation drafting(Make source, std::optional<int> k) {
  std::vector<Speculation::SourceKind> sources;
  sources.push_back({std::move(source), {}});
  return Speculation(std::move(sources), k);
}

Speculation oracle(const Loaded& model, const Tokens& text, int k) {
  return drafting([text, vocab = model.program.graph->shape.vocab] {
    return std::make_unique<TestDrafts>(TestDraftKind::oracle, text, kPrompt.size(), vocab, 1);
  }, k);
}

bool holds(const Session& session, const Tokens& text, std::size_t count) {
  Tokens expected = kPrompt;
  expected.insert(expected.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(count));
  return std::ranges::equal(session.tokens(), expected);
}

const suite<"speculation"> speculation = [] {
  "a stop token inside a block ends it there, wherever it stands"_test = [] {
    Loaded model(kPair.target, {.context_tokens = 256});
    const Tokens text = plain_text(model, 60);
    for (int k = 0; k <= decode::kMaxDrafts; ++k)
      for (std::size_t at = 0; at < 20; ++at) {
        const auto first = static_cast<std::size_t>(std::ranges::find(text, text[at]) - text.begin());
        Speculation drafts = oracle(model, text, k);
        Session session(model.program, *model.executor);
        Generation generation(session, kPrompt, {.stop_ids = {&text[at], 1}, .speculation = &drafts});
        expect(all_of(generation) == Tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(first))) << k << at;
        expect(generation.reason() == StopReason::stop_token && generation.stop_token() == text[at]);
        expect(generation.count() == static_cast<std::int32_t>(first) && holds(session, text, first)) << k << at;
        expect(!generation.next().has_value());
      }
  };

  "max_tokens and a full context end a text where they end a plain one"_test = [] {
    Loaded model(kPair.target, {.context_tokens = 40});
    const int room = 40 - static_cast<int>(kPrompt.size()) + 1;  // the last token needs no place
    const Tokens text = plain_text(model, room);
    for (int k = 0; k <= decode::kMaxDrafts; ++k) {
      for (int most = 1; most <= room; ++most) {
        Speculation drafts = oracle(model, text, k);
        Session session(model.program, *model.executor);
        Generation generation(session, kPrompt, {.max_tokens = most, .speculation = &drafts});
        expect(all_of(generation).size() == static_cast<std::size_t>(most) && generation.reason() == StopReason::max_tokens);
        expect(session.length() <= static_cast<std::int32_t>(kPrompt.size()) + most);
      }
      Speculation drafts = oracle(model, text, k);
      Session session(model.program, *model.executor);
      Generation generation(session, kPrompt, {.speculation = &drafts});
      expect(all_of(generation) == text && generation.reason() == StopReason::context && session.length() == 40) << k;
    }
  };

  "one that is stopped leaves what it returned, and another text can follow"_test = [] {
    Loaded model(kPair.target, {.context_tokens = 256});
    const Tokens text = plain_text(model, 60);
    Session session(model.program, *model.executor);
    for (std::size_t count = 1; count < 20; ++count) {
      Speculation drafts = oracle(model, text, 7);
      session.rollback(0);
      Generation generation(session, kPrompt, {.speculation = &drafts});
      for (std::size_t i = 0; i < count; ++i) expect(generation.next() == text[i]);
      generation.stop();
      // The last one may still be without K/V.
      expect(holds(session, text, count) || holds(session, text, count - 1)) << count;
    }
  };

  "a cancelled round changes nothing, before and after its drafts"_test = [] {
    Loaded model(kPair.target, {.context_tokens = 256}, 2, kPair.assistant);
    const Tokens text = plain_text(model, 40);
    for (const graph::Op at : {graph::Op::keep_draft, graph::Op::embed_pair}) {
      std::atomic<bool> cancel = false;
      int seen = 0;
      ObservedExecutor executor(*model.executor, [&](const link::StepResult& result) {
        expect(!cancel || result.step.rows == graph::RowSet::draft) << "no row was verified";
        if (result.step.op == at && ++seen == 6) cancel = true;
      });
      Session session(model.program, executor);
      Speculation drafts = drafting(kAssistant, 3);
      Generation generation(session, kPrompt, {.speculation = &drafts, .cancel = &cancel});
      const Tokens tokens = all_of(generation);
      expect(cancel && generation.reason() == StopReason::cancelled);
      expect(!tokens.empty() && std::equal(tokens.begin(), tokens.end(), text.begin()));
      expect(generation.count() == static_cast<std::int32_t>(tokens.size()));
      expect(holds(session, text, tokens.size() - 1) && generation.stats().rounds == 1_i64);

      cancel = false;
      session.rollback(0);
      Generation again(session, kPrompt, {.max_tokens = 40, .speculation = &drafts, .cancel = &cancel});
      expect(all_of(again) == text);
    }
  };

  "a round cancelled after its rows were computed has still overwritten what they replaced"_test = [] {
    Loaded model(kPair.target, {.context_tokens = 256, .chunk_rows = 8});  // window 16: rings of 64 positions
    std::atomic<bool> cancel = false;
    ObservedExecutor executor(*model.executor, [&](const link::StepResult& result) {
      cancel = cancel || (result.rows == 8 && result.step.rows == graph::RowSet::last);
    });
    Session session(model.program, executor);
    session.prefill(Tokens(100, 5));
    const Tokens drafts(7, 9);
    Session::RoundHooks hooks;
    hooks.cancel = &cancel;
    const std::int32_t oldest = 100 + 16 - 1 - 64;  // the least length that can be gone back to
    expect(session.can_rollback(oldest));
    expect(!session.begin_round({7, drafts.data()}, nullptr, hooks));
    expect(session.length() == 100_i && !session.can_rollback(oldest + 7) && session.can_rollback(oldest + 8));
  };

  "statistics add up"_test = [] {
    Loaded model(kPair.target, {.context_tokens = 256}, 1, kPair.assistant);
    for (const auto k : {std::optional<int>(), std::optional<int>(0), std::optional<int>(4)}) {
      Speculation drafts = drafting(kAssistant, k);
      Session session(model.program, *model.executor);
      Generation generation(session, kPrompt, {.max_tokens = 120, .speculation = &drafts});
      const auto count = static_cast<std::int64_t>(all_of(generation).size());
      const decode::SpeculationStats& stats = generation.stats();
      expect(stats.tokens == count - 1);
      expect(std::accumulate(stats.rounds_by_k.begin(), stats.rounds_by_k.end(), std::int64_t{0}) == stats.rounds);
      expect(std::accumulate(stats.accepted.begin(), stats.accepted.end(), std::int64_t{0}) == stats.tokens - stats.rounds);
      expect(stats.rounds_by_source[0] == stats.rounds - stats.rounds_by_k[0]);
      std::int64_t plain = 0;
      for (const auto& [reason, rounds] : stats.plain_rounds) {
        expect(!reason.empty());
        plain += rounds;
      }
      expect(plain == stats.rounds_by_k[0]);
      for (std::size_t i = 0; i < stats.drafted.size(); ++i) expect(stats.accepted[i] <= stats.drafted[i]);
      expect(stats.verify_s > 0 && stats.draft_s >= 0);
      if (k == 4) expect(stats.rounds < stats.tokens) << "nothing was accepted";
    }
  };

  "where rounds cost the same whatever their width, right drafts are made as long as they can be"_test = [] {
    Loaded model(kPair.target, {.context_tokens = 512});
    const Tokens text = plain_text(model, 400);
    double time_s = 0;
    std::vector<Speculation::SourceKind> sources;
    sources.push_back({[&] { return std::make_unique<TestDrafts>(TestDraftKind::oracle, text, kPrompt.size(), 256, 1); }, {}});
    Speculation drafts(std::move(sources), std::nullopt, [&] { return time_s += 1.0; });
    Session session(model.program, *model.executor);
    Generation generation(session, kPrompt, {.max_tokens = 400, .speculation = &drafts});
    expect(all_of(generation) == text);
    expect(generation.stats().rounds_by_k[7] > generation.stats().rounds / 2);
  };

  "two sessions draft side by side"_test = [] {
    Loaded model(kPair.target, {.context_tokens = 256, .sessions = 2}, 1, kPair.assistant);
    const Tokens text = plain_text(model, 80);
    Tokens other_prompt(kPrompt.rbegin(), kPrompt.rend());
    Session first(model.program, *model.executor, 0), second(model.program, *model.executor, 1);
    Speculation drafts = drafting(kAssistant, 3);  // one for both
    Session alone(model.program, *model.executor, 0);
    Generation reference(alone, other_prompt, {.max_tokens = 80});
    const Tokens other_text = all_of(reference);

    Generation one(first, kPrompt, {.max_tokens = 80, .speculation = &drafts});
    Generation two(second, other_prompt, {.max_tokens = 80, .speculation = &drafts});
    for (int i = 0; i < 80; ++i) {
      expect(one.next() == text[i]) << i;
      expect(two.next() == other_text[i]) << i;
    }
    for (const Generation* generation : {&one, &two}) {
      const decode::SpeculationStats& stats = generation->stats();
      expect(eq(stats.tokens, 79) && stats.tokens > stats.rounds) << "each counts what is its own";
    }
  };

  "a draft outside of the vocabulary is refused"_test = [] {
    Loaded model(kPair.target, {.context_tokens = 64});
    Session session(model.program, *model.executor);
    session.prefill(kPrompt);
    const std::int32_t bad = 256;
    expect(outcome_of([&] { session.begin_round({1, &bad}, nullptr, {}); }) == "usage");
  };
};

const suite<"pebble's assistant"> pebbles_assistant = [] {
  struct Expectation {
    const char* prompt;
    double tokens_per_round;
  };
  for (const auto& [prompt, least] : {Expectation{"Give me JSON for 3 people.", 3.6},
                                      {"What is 17 + 25 + 8? Work step by step.", 3.2},
                                      {"Tell me a story.", 3.7}})
    boost::ut::test(std::string(prompt) + ": enough of its drafts are accepted") = [prompt = prompt, least = least] {
      const Pair pair = pebble_pair();
      Loaded model(pair.target, {.context_tokens = 256}, 2, pair.assistant);
      const text::Tokenizer tokenizer = text::Tokenizer::open(pair.target);
      const auto ids = tokenizer.encode("<bos><|turn>user\n" + std::string(prompt) +
                                        "<turn|>\n<|turn>model\n<|channel>thought\n<channel|>");
      Speculation drafts = drafting(kAssistant, 4);
      Session session(model.program, *model.executor);
      Generation generation(session, ids, {.max_tokens = 100, .speculation = &drafts});
      expect(all_of(generation).size() == 100u);
      expect(generation.stats().tokens_per_round() >= least) << generation.stats().tokens_per_round();
    };
};

}  // namespace
}  // namespace lapidary::test::speculation_test
