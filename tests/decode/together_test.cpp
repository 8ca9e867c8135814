// Several sessions in one backend: their rounds in one pass, each with the bytes that it would have alone, whoever else is there,
// whatever drafts, masks and penalties they have, and with prompts of others in between.
#include <boost/ut.hpp>

#include <cstring>
#include <deque>
#include <memory>

#include "decode/generate.hpp"
#include "decode/lookup.hpp"
#include "support/ahead_executor.hpp"
#include "support/expected.hpp"
#include "support/generating.hpp"
#include "support/model.hpp"
#include "support/observed_executor.hpp"
#include "support/pairs.hpp"
#include "support/random.hpp"
#include "support/slow_build.hpp"
#include "support/slow_device.hpp"
#include "support/test_drafts.hpp"
#include "text/grammar.hpp"
#include "text/grammar_vocabulary.hpp"

namespace lapidary::test::together_test {
namespace {

using namespace boost::ut;
using decode::Constraint;
using decode::GenerateOptions;
using decode::Generation;
using decode::Session;
using decode::Speculation;
using decode::StopReason;
using Tokens = std::vector<std::int32_t>;

constexpr int kSessions = 8, kTokens = kSlowBuild ? 10 : 18, kVocab = 256;
constexpr std::string_view kSchema = R"({"type":"array","minItems":900,"maxItems":1000,"items":{"anyOf":[
  {"type":"object","properties":{"age":{"type":"integer","minimum":0,"maximum":99}},"required":["age"],"additionalProperties":false},
  {"type":"boolean"},{"enum":["red","green"]}]}})";

// The tokens of the tiny models stand for single bytes here.
std::shared_ptr<const text::Grammar> schema() {
  static const std::string bytes = [] {
    std::string all;
    for (int byte = 0; byte < kVocab; ++byte) all += static_cast<char>(byte);
    return all;
  }();
  std::vector<text::Vocabulary::Piece> pieces;
  for (std::size_t id = 0; id < kVocab; ++id)
    pieces.push_back({std::string_view(bytes).substr(id, 1), id < 0xf5 ? text::PieceKind::byte : text::PieceKind::special});
  static const auto grammar =
      text::Grammar::schema(std::make_shared<const text::Vocabulary>(pieces), text::parse_json(kSchema, "schema"));
  return grammar;
}

// What one of the sessions does, and what became of it alone.
enum class Source { none, assistant, dflash, lookup, oracle, wrong, random };
struct Text {
  graph::Sampling sampling{};
  bool constrained = false;
  Source source = Source::none;
  std::optional<int> k{};
  int prompt_tokens = 20;
  Tokens prompt{}, alone{};
  std::vector<float> logits{};  // that the last token was chosen from
};

constexpr graph::Sampling kUsual{.temperature = 1.0f, .top_k = 64, .top_p = 0.95f, .seed = 72};
constexpr graph::Sampling kPenalties{.repetition = 1.2f, .presence = 0.3f, .frequency = 0.5f, .temperature = 0.8f, .min_p = 0.02f,
                                     .seed = 73};
constexpr graph::Sampling kWarm{.temperature = 0.7f, .seed = 71};
constexpr std::pair<std::int32_t, float> kBias[] = {{65, 4.0f}, {66, -3.0f}};
constexpr std::int32_t kSuppressed[] = {32, 70, 71, 72};

std::vector<Text> texts() {
  std::vector<Text> all = {
      {.sampling = kPenalties, .source = Source::assistant, .k = 2, .prompt_tokens = 41},
      {.sampling = kUsual, .constrained = true, .source = Source::random, .k = 1, .prompt_tokens = 7},
      {.source = Source::oracle, .k = 3, .prompt_tokens = 33},
      {.sampling = {.bias = kBias, .temperature = 1.0f, .seed = 5}, .prompt_tokens = 20},
      {.sampling = kPenalties, .constrained = true, .source = Source::assistant, .k = 1, .prompt_tokens = 12},
      {.sampling = {.suppressed = kSuppressed, .repetition = 1.3f}, .source = Source::wrong, .k = 2, .prompt_tokens = 64},
      {.sampling = kWarm, .source = Source::lookup, .k = 4, .prompt_tokens = 29},
      {.source = Source::assistant, .prompt_tokens = 18},
      {.sampling = kWarm, .source = Source::dflash, .k = 2, .prompt_tokens = 23},
      {.sampling = kPenalties, .constrained = true, .source = Source::dflash, .k = 3, .prompt_tokens = 70},
  };
  Random random(17);
  for (Text& text : all)
    for (int i = 0; i < text.prompt_tokens; ++i) text.prompt.push_back(4 + random.below(240));
  return all;
}

Speculation drafting(const Text& text, std::optional<int> k) {
  std::vector<Speculation::SourceKind> sources;
  const auto scripted = [&](TestDraftKind kind) {
    return [=, &text] { return std::make_unique<TestDrafts>(kind, text.alone, text.prompt.size(), kVocab, 3); };
  };
  switch (text.source) {
    case Source::none: return Speculation();
    case Source::assistant: sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}}); break;
    case Source::dflash: sources.push_back({[] { return std::make_unique<decode::DFlash>(8); }, {.block = true}}); break;
    case Source::lookup: sources.push_back({[] { return std::make_unique<decode::Lookup>(256); }, {}}); break;
    case Source::oracle: sources.push_back({scripted(TestDraftKind::oracle), {}}); break;
    case Source::wrong: sources.push_back({scripted(TestDraftKind::wrong), {}}); break;
    case Source::random: sources.push_back({scripted(TestDraftKind::random), {}}); break;
  }
  return Speculation(std::move(sources), k);
}

GenerateOptions options_of(const Text& text, Speculation* speculation) {
  GenerateOptions options{.sampling = text.sampling, .max_tokens = kTokens, .speculation = speculation, .wants_logits = true};
  if (text.constrained) options.constraint = Constraint({.answer_grammar = schema()});
  return options;
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Each alone, in slot 0, without drafts.
void generate_alone(Loaded& model, std::vector<Text>& all) {
  for (Text& text : all) {
    Session session(model.program, *model.executor);
    Generation generation(session, text.prompt, options_of(text, nullptr));
    while (const auto token = generation.next()) {
      text.alone.push_back(*token);
      text.logits = copy(generation.logits());
    }
  }
}

// A text in a session of its own among others.
struct Run {
  const Text& text;
  Session session;
  Speculation speculation;
  Generation generation;
  Tokens tokens{};
  std::vector<float> logits{};

  Run(Loaded& model, link::Executor& executor, int slot, const Text& of)
      : text(of), session(model.program, executor, slot), speculation(drafting(of, of.k)),
        generation(session, of.prompt, options_of(of, &speculation)) {}

  // All tokens that are there without a round.
  void take() {
    while (!generation.in_prompt() && !generation.wants_round()) {
      const auto token = generation.next();
      if (!token) return;
      tokens.push_back(*token);
      logits = copy(generation.logits());
    }
  }
  bool ended() const { return generation.reason() != StopReason::none; }
};

// Rounds for all that are so far; before some of them, a chunk of a prompt for the next that is not.
void play(Loaded& model, link::Executor& executor, std::span<const Text* const> all, const std::string& where) {
  std::deque<Run> runs;
  for (std::size_t i = 0; i < all.size(); ++i) runs.emplace_back(model, executor, static_cast<int>(i), *all[i]);
  for (;;) {
    std::vector<Generation*> playing;
    Run* reading = nullptr;
    for (Run& run : runs) {
      if (run.generation.in_prompt() && !reading) reading = &run;
      if (run.generation.wants_round()) playing.push_back(&run.generation);
    }
    if (!reading && playing.empty()) break;
    if (!playing.empty()) Generation::play_together(playing);
    for (Run& run : runs) run.take();
    if (reading) reading->generation.turn();
    if (reading) reading->take();
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Run& run = runs[i];
    expect(run.ended() || !run.generation.next()) << where << i << "has not ended";
    expect(run.tokens == run.text.alone) << where << "session" << i << "of" << runs.size();
    expect(same_bytes(run.logits, run.text.logits)) << where << "logits of session" << i << "of" << runs.size();
  }
}

const suite<"together"> together = [] {
  for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast})
    for (const Pair& pair : fixture_pairs()) {
      if (pair.name != "dense-4bit" && pair.name != "moe-bf16" && pair.name != "ple-4bit") continue;
      if (is_slow_device() && (numeric == link::Numeric::exact) != (pair.name == "moe-bf16")) continue;  // one mode of each
      const std::string name = pair.name + (numeric == link::Numeric::fast ? ", fast mode," : "");
      boost::ut::test(name + " says the same to each of two to eight sessions as to one") = [=] {
        Loaded model(pair.target, {.context_tokens = 128, .chunk_rows = 16, .sessions = kSessions, .numeric = numeric}, 2, pair.assistant,
                     pair.dflash);
        std::vector<Text> all = texts();
        generate_alone(model, all);
        std::vector<const Text*> order;
        for (const Text& text : all) order.push_back(&text);
        std::ranges::rotate(order, order.begin() + 2);  // the last ones have a block drafter
        for (const std::size_t count : {std::size_t{8}, 2 + name.size() % 5}) {  // with each model another number
          play(model, *model.executor, std::span(order).first(count), name);
          std::ranges::rotate(order, order.begin() + 3);
          if (kSlowBuild || is_slow_device()) return;
        }
      };
    }

  const Pair pair = fixture_pairs().front();

  "rounds that had begun ahead are ended before others are played together"_test = [=] {
    Loaded model(pair.target, {.context_tokens = 128, .chunk_rows = 16, .sessions = 2}, 1, pair.assistant);
    AheadExecutor ahead(*model.executor);
    std::vector<Text> all = texts();
    generate_alone(model, all);
    Session first(model.program, ahead, 0), second(model.program, ahead, 1);
    Speculation drafts = drafting(all[0], 2), others = drafting(all[7], 3);
    GenerateOptions one_options = options_of(all[0], &drafts), two_options = options_of(all[7], &others);
    one_options.wants_logits = two_options.wants_logits = false;
    Generation one(first, all[0].prompt, one_options), two(second, all[7].prompt, two_options);
    Tokens one_tokens, two_tokens;
    const auto take = [](Generation& generation, Tokens& tokens) {
      while (!generation.wants_round()) {
        const auto token = generation.next();
        if (!token) break;
        tokens.push_back(*token);
      }
    };
    for (bool alone = true; one.reason() == StopReason::none || two.reason() == StopReason::none; alone = !alone) {
      if (alone) {
        if (const auto token = one.next()) one_tokens.push_back(*token);
        if (const auto token = two.next()) two_tokens.push_back(*token);
      }
      take(one, one_tokens), take(two, two_tokens);
      Generation* const both[] = {&one, &two};
      Generation::play_together(both);
      take(one, one_tokens), take(two, two_tokens);
    }
    expect(one_tokens == all[0].alone && two_tokens == all[7].alone);
  };

  "the assistant drafts for each what it would draft alone"_test = [=] {
    Loaded model(pair.target, {.context_tokens = 128, .chunk_rows = 16, .sessions = 3}, 2, pair.assistant);
    std::vector<Text> all = texts();
    generate_alone(model, all);
    std::deque<Run> runs;
    std::vector<Generation*> playing;
    for (const std::size_t i : {0u, 3u, 7u}) {
      all[i].source = Source::assistant;
      all[i].k = 1;
      Run& run = runs.emplace_back(model, *model.executor, static_cast<int>(runs.size()), all[i]);
      while (run.generation.in_prompt()) run.generation.turn();
      run.take();
      playing.push_back(&run.generation);
    }
    while (std::ranges::any_of(playing, &Generation::wants_round)) {
      Generation::play_together(playing);
      for (Run& run : runs) run.take();
    }
    for (const Run& run : runs) {
      Run alone(model, *model.executor, 0, run.text);
      while (alone.generation.next()) {}
      const decode::SpeculationStats &stats = run.generation.stats(), &expected = alone.generation.stats();
      expect(run.tokens == run.text.alone && expected.drafted[0] > 0);
      expect(eq(stats.rounds, expected.rounds) && stats.drafted == expected.drafted && stats.accepted == expected.accepted);
    }
  };

  "the assistant is read once for the drafts of all sessions, and drafts what it would for each alone"_test = [=] {
    Loaded model(pair.target, {.context_tokens = 128, .chunk_rows = 16, .sessions = 3}, 2, pair.assistant);
    const std::vector<Text> all = texts();
    using Drafted = std::array<int, 3>;
    using Rows = std::vector<std::size_t>;
    for (const auto& [drafted, together] : {std::pair{Drafted{1, 3, 1}, Rows{3, 1, 1}}, {Drafted{2, 1, 2}, Rows{3, 2}}}) {
      std::vector<Tokens> expected;
      std::deque<Session> sessions;
      std::vector<Session::Player> players;
      const auto drafts_of = [&](int slot) {
        const auto& drafts = model.executor->state(slot).drafts;
        return Tokens(drafts.begin(), drafts.begin() + drafted[static_cast<std::size_t>(slot)]);
      };
      for (int slot = 0; slot < 3; ++slot) {
        Session& session = sessions.emplace_back(model.program, *model.executor, slot);
        const Tokens& prompt = all[static_cast<std::size_t>(slot) + 1].prompt;
        const decode::Drafts drafts{drafted[static_cast<std::size_t>(slot)], nullptr};
        session.prefill(prompt);
        expect(session.begin_round(drafts, nullptr, {}));
        session.end_round();
        expected.push_back(drafts_of(slot));
        session.rollback(0);
        session.prefill(prompt);
        players.push_back({&session, drafts, nullptr, nullptr});
      }
      std::vector<link::StepTime> times;
      expect(Session::begin_rounds(players, {.times = &times}));
      Rows rows;  // of each run of the assistant
      for (const link::StepTime& time : times)
        if (time.segment == graph::SegmentId::draft && time.step->op == graph::Op::embed_pair) rows.push_back(time.rows);
      for (int slot = 0; slot < 3; ++slot) {
        sessions[static_cast<std::size_t>(slot)].end_round();
        expect(drafts_of(slot) == expected[static_cast<std::size_t>(slot)]) << slot;
      }
      // Metal's kernels for drafts have one row.
      const Rows in_turn(5, 1);
      expect(rows == (model.program.backend->computes_here ? together : in_turn)) << rows.size();
    }
  };

  "one speculation serves all texts of an engine, and learns what their rounds cost together"_test = [=] {
    Loaded model(pair.target, {.context_tokens = 128, .chunk_rows = 16, .sessions = 3}, 1, pair.assistant);
    std::vector<Text> all = texts();
    generate_alone(model, all);
    double time_s = 0;
    std::vector<Speculation::SourceKind> sources;
    sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
    Speculation speculation(std::move(sources), std::nullopt, [&] { return time_s += 1.0; });
    std::deque<Session> sessions;
    std::deque<Generation> generations;
    std::vector<Generation*> playing;
    for (const int i : {0, 4, 7}) {
      GenerateOptions options = options_of(all[static_cast<std::size_t>(i)], &speculation);
      Session& session = sessions.emplace_back(model.program, *model.executor, static_cast<int>(sessions.size()));
      playing.push_back(&generations.emplace_back(session, all[static_cast<std::size_t>(i)].prompt, options));
      while (playing.back()->in_prompt()) playing.back()->turn();
    }
    std::vector<Tokens> tokens(3);
    for (bool ended = false; !ended;) {
      ended = true;
      for (std::size_t i = 0; i < 3; ++i)
        while (!generations[i].wants_round()) {
          const auto token = generations[i].next();
          if (!token) break;
          tokens[i].push_back(*token);
        }
      for (const Generation& generation : generations) ended = ended && generation.reason() != StopReason::none;
      if (!ended) Generation::play_together(playing);
    }
    expect(tokens[0] == all[0].alone && tokens[1] == all[4].alone && tokens[2] == all[7].alone);
    expect(speculation.costs().known(3)) << "rounds of three rows were played, without drafts at first";
    std::int64_t drafted = 0;
    for (const Generation& generation : generations) drafted += generation.stats().rounds - generation.stats().rounds_by_k[0];
    expect(drafted > 0) << "by this clock drafts cost nothing";
  };

  // A round with a grammar is more than one run over the arena.
  "two sessions take turns, one of them with a grammar"_test = [=] {
    Loaded model(pair.target, {.context_tokens = 128, .chunk_rows = 16, .sessions = 2}, 2, pair.assistant);
    AheadExecutor ahead(*model.executor);
    std::vector<Text> all = texts();
    generate_alone(model, all);
    for (const std::size_t constrained : {1u, 4u})
      for (const std::size_t free : {0u, 2u, 3u}) {
        Run one(model, ahead, 0, all[constrained]);
        Session session(model.program, ahead, 1);
        Speculation drafts = drafting(all[free], all[free].k);
        GenerateOptions options = options_of(all[free], &drafts);
        options.wants_logits = false;  // rounds may begin ahead
        Generation two(session, all[free].prompt, options);
        for (std::size_t i = 0; i < static_cast<std::size_t>(kTokens); ++i) {
          expect(one.generation.next() == all[constrained].alone[i]) << i;
          expect(two.next() == all[free].alone[i]) << i;
        }
      }
  };

  "a run that goes on with another one comes right behind it"_test = [=] {
    Loaded model(pair.target, {.context_tokens = 64, .sessions = 2});
    Session first(model.program, *model.executor, 0), second(model.program, *model.executor, 1);
    const Tokens prompt(9, 5);
    first.prefill(prompt);
    second.prefill(prompt);
    const link::Seat seats[] = {{.slot = 0}, {.slot = 1}};
    link::Executor& executor = *model.executor;
    expect(outcome_of([&] { executor.submit(link::Play::select, seats); }) == "usage");
    executor.submit(link::Play::verify, std::span(seats).first(1));
    expect(outcome_of([&] { executor.submit(link::Play::select, std::span(seats).last(1)); }) == "usage");
    executor.submit(link::Play::verify, std::span(seats).first(1));
    const link::RunId run = executor.submit(link::Play::round, std::span(seats).last(1));
    expect(outcome_of([&] { executor.submit(link::Play::select, std::span(seats).first(1)); }) == "usage");
    executor.submit(link::Play::verify, seats);
    expect(outcome_of([&] { executor.submit(link::Play::select, seats); }) == "ok");
    expect(outcome_of([&] { executor.outputs(run, 0); }) == "usage") << "outputs of a run that others have followed";
  };
};

const suite<"prompts by turns"> prompts_by_turns = [] {
  const std::string folder = kFixtures + "/models/dense-4bit";

  "a chunk that fails leaves what was computed before it, and no more"_test = [=] {
    Loaded model(folder, {.context_tokens = 128, .chunk_rows = 16}, 2);
    Tokens prompt;
    Random random(3);
    for (int i = 0; i < 60; ++i) prompt.push_back(random.below(kVocab));
    Session plain(model.program, *model.executor);
    plain.prefill(prompt);
    const std::vector<float> expected = copy(plain.logits());

    int chunk = 0, fails_at = 2;
    ObservedExecutor executor(*model.executor, [&](const link::StepResult& result) {
      chunk += result.step.op == graph::Op::embed;
      if (chunk == fails_at && result.step.op == graph::Op::attention) fail(ErrorKind::io, "test", "expected nothing, got this");
    });
    Session session(model.program, executor);
    expect(outcome_of([&] { session.prefill(prompt); }) == "io");
    expect(eq(session.length(), 16)) << "what was computed counts, the rest does not";
    fails_at = 0;
    expect(eq(session.keep_common_prefix(prompt), 16));
    session.prefill(std::span(prompt).subspan(16));
    expect(same_bytes(copy(session.logits()), expected));
    session.rollback(0);
    session.prefill(std::span(prompt).first(40));
    chunk = 0, fails_at = 1;
    expect(outcome_of([&] { session.forward(std::span(prompt).subspan(40, 3)); }) == "io");
    expect(eq(session.length(), 40)) << "nor do tokens of a round";
  };

  "a round that fails changes nothing"_test = [=] {
    const Pair pair = fixture_pairs().front();
    Loaded model(pair.target, {.context_tokens = 128, .sessions = 2}, 2, pair.assistant);
    std::vector<Text> all = texts();
    generate_alone(model, all);
    bool fails = false;
    ObservedExecutor executor(*model.executor, [&](const link::StepResult& result) {
      if (fails && result.step.op == graph::Op::attention && result.step.rows != graph::RowSet::draft)
        fail(ErrorKind::io, "test", "expected nothing, got this");
    });
    for (const bool together : {false, true}) {
      Run one(model, executor, 0, all[0]), two(model, executor, 1, all[2]);
      for (Run* run : {&one, &two}) {
        run->generation.turn();
        run->take();
      }
      fails = true;
      Generation* const both[] = {&one.generation, &two.generation};
      for (int i = 0; i < 2; ++i)
        expect(outcome_of([&] { together ? void(Generation::play_together(both)) : void(one.generation.next()); }) == "io");
      fails = false;
      while (!one.ended() || !two.ended()) {
        Generation::play_together(both);
        one.take(), two.take();
      }
      expect(one.tokens == all[0].alone && two.tokens == all[2].alone) << together;
    }
  };

  "a prompt is cancelled between its chunks, and gone on with later"_test = [=] {
    Loaded model(folder, {.context_tokens = 128, .chunk_rows = 16});
    Tokens prompt(60, 7);
    std::atomic<bool> cancel = false;
    int chunks = 0;
    ObservedExecutor executor(*model.executor, [&](const link::StepResult& result) {
      cancel = cancel || (result.step.op == graph::Op::embed && ++chunks == 2);
    });
    Session session(model.program, executor);
    Generation generation(session, prompt, {.max_tokens = 5, .cancel = &cancel});
    expect(!generation.next() && generation.reason() == StopReason::cancelled);
    expect(eq(session.length(), 32) && !session.in_prompt());
    cancel = false;
    Generation rest(session, std::span(prompt).subspan(32), {.max_tokens = 5});
    Session other(model.program, *model.executor);
    const Tokens tokens = all_of(rest);
    Generation whole(other, prompt, {.max_tokens = 5});
    expect(tokens == all_of(whole));
  };
};

const suite<"copied sessions"> copied_sessions = [] {
  const Pair pair = fixture_pairs().front();

  "a copy goes on as the original does"_test = [=] {
    for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast}) {
      Loaded model(pair.target, {.context_tokens = 256, .chunk_rows = 16, .sessions = 3, .numeric = numeric}, 1, pair.assistant);
      Session first(model.program, *model.executor, 0), second(model.program, *model.executor, 2);
      Tokens prompt;
      Random random(9);
      for (int i = 0; i < 150; ++i) prompt.push_back(random.below(kVocab));
      first.prefill(prompt);
      for (int i = 0; i < 3; ++i) {
        first.begin_round({2, nullptr}, nullptr, {});
        first.end_round();
      }
      second.copy(first, first.length());
      const auto rounds_of = [](Session& session) {
        Tokens tokens;
        std::vector<float> logits;
        for (int i = 0; i < 6; ++i) {
          session.begin_round({i % 4, nullptr}, nullptr, {});
          const auto round = session.end_round();
          tokens.insert(tokens.end(), round.report.result.chosen().begin(), round.report.result.chosen().end());
          logits = copy(session.logits(round.report.result.accepted));
        }
        return std::pair(tokens, logits);
      };
      const auto [tokens, logits] = rounds_of(first);
      const auto [copied, copied_logits] = rounds_of(second);
      expect(tokens == copied && same_bytes(logits, copied_logits));
      expect(std::ranges::equal(first.tokens(), second.tokens()));

      // A beginning of it, and another end.
      const std::int32_t length = first.length() - 4;
      second.copy(first, length);
      const Tokens end(11, 3);
      second.prefill(end);
      const std::vector<float> continued = copy(second.logits());
      first.rollback(length);
      first.prefill(end);
      expect(same_bytes(continued, copy(first.logits())));
    }
  };

  "what a ring has lost is not copied"_test = [=] {
    Loaded model(pair.target, {.context_tokens = 256, .chunk_rows = 8, .sessions = 2});  // window 16: rings of 64 positions
    Session first(model.program, *model.executor, 0), second(model.program, *model.executor, 1);
    first.prefill(Tokens(200, 5));
    expect(outcome_of([&] { second.copy(first, 150); }) == "usage");
    expect(eq(second.length(), 0));
    expect(outcome_of([&] { second.copy(first, 160); }) == "ok");
    expect(!second.can_rollback(150) && second.can_rollback(151)) << "nor is it there in the copy";
  };
};

}  // namespace
}  // namespace lapidary::test::together_test
