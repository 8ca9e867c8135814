// Soft tokens in prompts: what the reference computes from them, and the same bytes on every path: any chunk that holds an image, any
// drafts, after rollbacks, from what was kept, beside other sessions. Another picture is another text.
#include <boost/ut.hpp>

#include <cmath>
#include <cstring>
#include <deque>

#include "decode/generate.hpp"
#include "decode/lookup.hpp"
#include "decode/prefix_cache.hpp"
#include "support/generating.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"
#include "support/slow_build.hpp"
#include "support/soft_prompts.hpp"

namespace lapidary::test::soft_test {
namespace {

using namespace boost::ut;
using decode::GenerateOptions;
using decode::Generation;
using decode::Session;
using decode::Speculation;
using Tokens = std::vector<std::int32_t>;

constexpr float kLogitsTolerance = 0.002f;  // as fixtures/README.md recommends
constexpr int kContext = 256, kSmallChunk = 70;

// Others take longer, and what is different there is in few places.
bool is_cpu() { return link::backends().front()->name == "cpu"; }
int most_tokens() { return !is_cpu() ? 5 : kSlowBuild ? 8 : 20; }

std::string folder_of(const std::string& kind) { return kFixtures + "/models/" + kind + "-bf16"; }

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// [tokens, vocab]
std::vector<float> all_logits(Session& session, const SoftPrompt& prompt) {
  std::vector<float> logits;
  Session::Observer observer;
  observer.window = [&](std::int32_t, std::int32_t count) {
    for (int i = 0; i < count; ++i) logits.insert(logits.end(), session.logits(i).begin(), session.logits(i).end());
  };
  session.prefill_all(prompt.ids, observer, prompt.soft());
  return logits;
}

// Of the token after the prompt, in turns of at most so many rows.
std::vector<float> last_logits(Session& session, const SoftPrompt& prompt, int most_rows = INT32_MAX) {
  const std::int32_t kept = session.keep_common_prefix(prompt.ids, prompt.blocks);
  session.begin_prompt(prompt.from(kept), nullptr, prompt.soft());
  while (session.in_prompt()) session.turn(most_rows);
  return copy(session.logits());
}

std::vector<float> logits_anew(Loaded& model, const SoftPrompt& prompt) {
  Session session(model.program, *model.executor);
  return last_logits(session, prompt);
}

enum class Source { none, assistant, dflash, lookup };
constexpr const char* kSourceNames[] = {"no drafts", "assistant", "dflash", "lookup"};

Speculation drafting(Source source, int k) {
  std::vector<Speculation::SourceKind> sources;
  if (source == Source::dflash) sources.push_back({[] { return std::make_unique<decode::DFlash>(8); }, {.block = true}});
  if (source == Source::assistant) sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
  if (source == Source::lookup) sources.push_back({[] { return std::make_unique<decode::Lookup>(kContext); }, {}});
  return Speculation(std::move(sources), k);
}

Tokens generate(Session& session, const SoftPrompt& prompt, const graph::Sampling& sampling, Source source = Source::none, int k = 0) {
  Speculation speculation = drafting(source, k);
  const std::int32_t kept = session.keep_common_prefix(prompt.ids, prompt.blocks);
  Generation generation(session, prompt.from(kept),
                        {.sampling = sampling, .soft = prompt.soft(), .max_tokens = most_tokens(), .speculation = &speculation});
  return all_of(generation);
}

struct Subject {
  std::string kind;
  link::Numeric numeric = link::Numeric::exact;

  std::string name() const { return kind + (numeric == link::Numeric::fast ? ", fast mode" : ""); }
  Loaded load(int chunk_rows = 0, int sessions = 1, int threads = 1) const {
    return Loaded(folder_of(kind), {.context_tokens = kContext, .chunk_rows = chunk_rows, .sessions = sessions, .numeric = numeric}, threads,
                  kFixtures + "/assistants/" + kind + "-bf16", kFixtures + "/dflash/" + kind + "-bf16");
  }
};

std::vector<Subject> subjects() {
  if (!is_cpu()) return {{"dense", link::Numeric::fast}, {"ple", link::Numeric::exact}};
  std::vector<Subject> all;
  for (const char* kind : {"dense", "ple", "unified"})
    for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast}) all.push_back({kind, numeric});
  return all;
}

// What is left of a prompt after a rollback.
std::int32_t left_of(const Subject& subject, const SoftPrompt& prompt, std::int32_t length) {
  for (const decode::SoftBlock& block : prompt.blocks)
    if (subject.kind != "ple" && block.begin < length && length < block.end) return block.begin;
  return length;
}

// The longest prompt of a fixture: two images.
const SoftPrompt& two_images(const SoftFixture& fixture) { return fixture.prompts.at("two-images"); }

const suite<"soft tokens"> soft_tokens = [] {
  for (const char* kind : {"dense", "ple", "unified"})
    boost::ut::test(std::string(kind) + " computes from soft tokens what the reference computes") = [=] {
      const SoftFixture fixture(kind);
      Loaded model(folder_of(kind), {.context_tokens = kContext});
      for (const auto& [name, prompt] : fixture.prompts) {
        Session session(model.program, *model.executor);
        const std::vector<float> logits = all_logits(session, prompt), expected = fixture.expected.floats(name + ".logits");
        expect(fatal(logits.size() == expected.size()));
        float difference = 0;
        for (std::size_t i = 0; i < logits.size(); ++i) difference = std::max(difference, std::abs(logits[i] - expected[i]));
        expect(difference <= kLogitsTolerance) << name << "logits differ by" << difference;
        expect(decode::greedy(session, 12) == fixture.expected.ids(name + ".greedy")) << name;
      }
    };

  for (const Subject& subject : subjects())
    boost::ut::test(subject.name() + ": the same bytes in any chunk that holds an image, and on any number of threads") = [=] {
      const SoftFixture fixture(subject.kind);
      const SoftPrompt& prompt = two_images(fixture);
      Loaded large = subject.load();
      Session session(large.program, *large.executor);
      const std::vector<float> expected = last_logits(session, prompt);
      const Tokens tokens = generate(session, prompt, {});
      const SoftPrompt others = prompt.with_another(0).with_another(1);
      for (const int most_rows : is_cpu() ? std::vector{1, 7, 40, 64, 69, 100} : std::vector{7, 69}) {  // an image is read as a whole where it is seen so
        last_logits(session, others);  // nothing of the prompt is left
        session.rollback(0);
        expect(same_bytes(last_logits(session, prompt, most_rows), expected)) << "turns of" << most_rows;
      }
      if (!is_cpu()) return;
      for (const int chunk : {kSmallChunk, 100}) {
        Loaded small = subject.load(chunk, 1, 3);
        Session other(small.program, *small.executor);
        expect(same_bytes(last_logits(other, prompt), expected)) << "chunks of" << chunk;
        other.rollback(0);
        expect(generate(other, prompt, {}) == tokens) << "chunks of" << chunk;
      }
    };

  for (const Subject& subject : subjects())
    boost::ut::test(subject.name() + ": drafts change no byte behind images and sounds, at any temperature") = [=] {
      const SoftFixture fixture(subject.kind);
      Loaded model = subject.load(kSmallChunk);
      Session session(model.program, *model.executor);
      for (const auto& [name, prompt] : fixture.prompts) {
        if (name != "image" && name != "two-images" && name != "image-audio") continue;
        if (!is_cpu() && name != "image") continue;
        for (const float temperature : is_cpu() ? std::vector{0.0f, 0.7f, 1.2f} : std::vector{0.7f}) {
          const graph::Sampling sampling{.temperature = temperature, .seed = 9};
          session.rollback(0);
          const Tokens expected = generate(session, prompt, sampling);
          for (const Source source : {Source::assistant, Source::dflash, Source::lookup})
            for (const int k : {1, 3, 7})
              expect(generate(session, prompt, sampling, source, k) == expected)
                  << name << kSourceNames[static_cast<int>(source)] << k << "temperature" << temperature;
        }
      }
    };

  for (const Subject& subject : subjects())
    boost::ut::test(subject.name() + ": a rollback forgets an image that is seen as a whole, and what follows is the same") = [=] {
      const SoftFixture fixture(subject.kind);
      const SoftPrompt& prompt = two_images(fixture);
      Loaded model = subject.load(kSmallChunk);
      Session session(model.program, *model.executor);
      const std::vector<float> expected = last_logits(session, prompt);
      const decode::SoftBlock& last = prompt.blocks.back();
      for (const std::int32_t length : {last.end + 1, last.end, last.end - 1, last.begin + 1, last.begin}) {
        generate(session, prompt, {.temperature = 1.0f, .seed = 4}, Source::assistant, 3);  // over the block's end, and further
        if (!session.can_rollback(length)) continue;
        session.rollback(length);
        expect(eq(session.length(), left_of(subject, prompt, length)));
        expect(eq(session.blocks().size(), session.length() > last.begin ? 2u : 1u)) << length;
        session.prefill(prompt.from(session.length()), nullptr, prompt.soft());
        expect(same_bytes(session.logits(), expected)) << length;
      }
    };

  for (const Subject& subject : subjects())
    boost::ut::test(subject.name() + ": what was kept is gone on from, another picture of the same size is not taken for it") = [=] {
      const SoftFixture fixture(subject.kind);
      const SoftPrompt& prompt = two_images(fixture);
      const SoftPrompt others[] = {prompt.with_another(0), prompt.with_another(1)};
      Loaded model = subject.load(kSmallChunk, 3);
      Session session(model.program, *model.executor, 1), copied(model.program, *model.executor, 2);
      decode::PrefixCache cache(model.program, 64 << 20);
      const std::vector<float> expected = logits_anew(model, prompt);
      last_logits(session, prompt);
      cache.store("", session);
      expect(eq(session.keep_common_prefix(prompt.ids, prompt.blocks), prompt.size() - 1));
      for (std::size_t b = 0; b < 2; ++b) {
        const std::vector<float> anew = logits_anew(model, others[b]);
        expect(!same_bytes(anew, expected)) << "block" << b;
        expect(cache.restore("", others[b].ids, copied, others[b].blocks) <= prompt.blocks[b].begin) << "block" << b;
        copied.prefill(others[b].from(copied.length()), nullptr, others[b].soft());
        expect(same_bytes(copied.logits(), anew)) << "block" << b;
        cache.store("", copied);
        expect(session.keep_common_prefix(others[b].ids, others[b].blocks) <= prompt.blocks[b].begin) << "block" << b;
        expect(same_bytes(last_logits(session, others[b]), anew)) << "block" << b;
        expect(same_bytes(last_logits(session, prompt), expected)) << "back from block" << b;
      }
      expect(eq(cache.restore("", prompt.ids, copied, prompt.blocks), prompt.size() - 1));
      expect(std::ranges::equal(copied.blocks(), prompt.blocks));
      expect(same_bytes(last_logits(copied, prompt), expected));
      // The same ids as a text are another text, too.
      expect(cache.restore("", prompt.ids, copied) <= prompt.blocks[0].begin);
      expect(session.keep_common_prefix(prompt.ids) <= prompt.blocks[0].begin);
    };

  for (const Subject& subject : subjects())
    boost::ut::test(subject.name() + ": a copy goes on as the session that it is of, and from any length before") = [=] {
      const SoftFixture fixture(subject.kind);
      const SoftPrompt& prompt = two_images(fixture);
      Loaded model = subject.load(0, 2);
      Session session(model.program, *model.executor, 0), copied(model.program, *model.executor, 1);
      const std::vector<float> expected = last_logits(session, prompt);
      for (const std::int32_t length : {prompt.size() - 1, prompt.blocks[1].end - 3, prompt.blocks[0].end, prompt.blocks[0].begin + 5}) {
        copied.copy(session, length);
        expect(eq(copied.length(), left_of(subject, prompt, length)));
        expect(same_bytes(last_logits(copied, prompt), expected)) << length;
      }
    };

  for (const Subject& subject : subjects())
    boost::ut::test(subject.name() + ": sessions with and without images share their rounds") = [=] {
      const SoftFixture fixture(subject.kind);
      SoftPrompt text;
      text.ids = {2, 17, 40, 41, 90, 17, 40};
      const SoftPrompt& first = two_images(fixture);
      const SoftPrompt other = first.with_another(0);
      const SoftPrompt* const prompts[] = {&first, &text, &other, &fixture.prompts.at("image")};
      Loaded model = subject.load(kSmallChunk, 4);
      std::vector<Tokens> alone, together(4);
      for (const SoftPrompt* prompt : prompts) {
        Session session(model.program, *model.executor);
        alone.push_back(generate(session, *prompt, {.temperature = 0.7f, .seed = 3}));
      }
      expect(alone[0] != alone[2]);
      Speculation drafts = drafting(Source::assistant, 1);
      std::deque<Session> sessions;
      std::deque<Generation> generations;
      std::vector<Generation*> playing;
      for (int i = 0; i < 4; ++i) {
        const SoftPrompt& prompt = *prompts[i];
        Session& session = sessions.emplace_back(model.program, *model.executor, i);
        GenerateOptions options{.sampling = {.temperature = 0.7f, .seed = 3}, .soft = prompt.soft(), .max_tokens = most_tokens(), .speculation = &drafts};
        playing.push_back(&generations.emplace_back(session, prompt.ids, options));
      }
      for (bool going = true; going;) {
        going = false;
        for (std::size_t i = 0; i < 4; ++i) {
          if (generations[i].in_prompt()) generations[i].turn();
          while (!generations[i].in_prompt() && !generations[i].wants_round()) {
            const auto token = generations[i].next();
            if (!token) break;
            together[i].push_back(*token);
          }
          going = going || generations[i].reason() == decode::StopReason::none;
        }
        Generation::play_together(playing);
      }
      for (std::size_t i = 0; i < 4; ++i) expect(together[i] == alone[i]) << "session" << i;
    };

  "blocks that are not of the text, or larger than a chunk where they are seen as a whole, are refused"_test = [] {
    const SoftFixture fixture("dense");
    const SoftPrompt& prompt = fixture.prompts.at("image");
    Loaded model = Subject{"dense"}.load(62);  // the image has 63
    Session session(model.program, *model.executor);
    expect(outcome_of([&] { session.prefill(prompt.ids, nullptr, prompt.soft()); }) == "usage");
    for (const auto& [begin, end] : {std::pair{-1, 3}, {5, 5}, {6, 4}, {70, 79}}) {
      const decode::SoftBlock block{begin, end, false, "x"};
      const std::span<const float> none;
      expect(outcome_of([&] { session.prefill(prompt.ids, nullptr, {{&block, 1}, {&none, 1}}); }) == "usage") << begin << end;
    }
    expect(eq(session.length(), 0));
    Loaded causal = Subject{"ple"}.load(5);
    const SoftFixture of_ple("ple");
    Session small(causal.program, *causal.executor);
    expect(outcome_of([&] { small.prefill(of_ple.prompts.at("image").ids, nullptr, of_ple.prompts.at("image").soft()); }) == "ok");
  };
};

}  // namespace
}  // namespace lapidary::test::soft_test
