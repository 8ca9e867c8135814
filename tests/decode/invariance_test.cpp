// The same bytes for a row, however it is computed: with other rows or alone, in any chunk, on any number of threads, wherever
// its ring has wrapped, after any rollback.
#include <boost/ut.hpp>

#include <cstring>

#include "support/cases.hpp"
#include "support/model.hpp"
#include "support/random.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::invariance_test {
namespace {

using namespace boost::ut;

constexpr int kTokens = 200;  // several windows of every fixture, more than one ring of some

// A model and how it computes.
struct Subject {
  std::string folder;
  link::Numeric numeric = link::Numeric::exact;
  const link::KvFormat* kv = nullptr;

  std::string name() const {
    return folder.substr(folder.rfind('/') + 1) + (numeric == link::Numeric::fast ? ", fast mode," : "") +
           (kv ? ", K/V in " + std::string(kv->name) + "," : "");
  }
  Loaded load(link::Options options, int threads = 1) const {
    options.numeric = numeric;
    options.kv = kv;
    return Loaded(folder, options, threads);
  }
};

std::vector<Subject> models() {
  std::vector<const char*> names = {"dense-nvfp4", "moe-mixed", "ple-4bit", "unified-6bit-g128"};
  if (!kSlowBuild)
    for (const char* name : {"dense-bf16", "moe-bf16", "ple-bf16", "unified-bf16", "dense-3bit", "moe-mxfp4", "ple-mxfp8"})
      names.push_back(name);
  std::vector<Subject> subjects;
  for (const char* name : names) subjects.push_back({kFixtures + "/models/" + name});
  // In the fast mode what it has kernels of its own for, beside what it has not.
  for (const char* name : {"dense-4bit", "dense-nvfp4", "moe-mixed", "moe-mxfp4", "ple-8bit", "unified-6bit-g128", "unified-bf16"})
    subjects.push_back({kFixtures + "/models/" + name, link::Numeric::fast});
  // K/V as codes: a model that stores one vector, and one whose layers share K/V.
  for (const link::KvFormat* format : {&link::kKvQ8, &link::kKvQ4}) {
    subjects.push_back({kFixtures + "/models/unified-bf16", link::Numeric::exact, format});
    subjects.push_back({kFixtures + "/models/ple-8bit", link::Numeric::fast, format});
    subjects.push_back({kFixtures + "/models/moe-mixed", link::Numeric::fast, format});
  }
  return subjects;
}


std::vector<std::int32_t> random_tokens(int vocab, int count = kTokens) {
  Random random(7);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(random.below(vocab));
  return tokens;
}

// All that a pass over the tokens leaves behind, as bytes.
struct Trace {
  std::vector<std::vector<float>> logits;  // by token; empty where none were computed
  std::vector<float> cache;                // the last positions of every layer's K/V that every ring still holds

  bool operator==(const Trace& other) const {
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (!logits[i].empty() && !other.logits[i].empty() && !same(logits[i], other.logits[i])) return false;
    return same(cache, other.cache);
  }
  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
};

void read_cache(const Loaded& model, int length, Trace& trace) {
  const graph::Shape& shape = model.program.graph->shape;
  for (int l = 0; l < shape.layer_count; ++l) {
    if (shape.layers[l].kv_layer != l) continue;
    const bool full = shape.layers[l].kind == graph::LayerKind::full;
    for (int head = 0; head < shape.layers[l].kv_heads; ++head)
      for (int p = full ? 0 : std::max(0, length - shape.window); p < length; ++p) {
        std::vector<float> k(shape.layers[l].head_dim), v(k.size());
        model.executor->read_kv(0, l, head, p, k, v);
        for (const auto& row : {k, v}) trace.cache.insert(trace.cache.end(), row.begin(), row.end());
      }
  }
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

Trace prompt_in_chunks(const Subject& subject, int chunk, int threads) {
  Loaded model = subject.load({.context_tokens = 256, .chunk_rows = chunk}, threads);
  const auto tokens = random_tokens(model.program.graph->shape.vocab);
  Trace trace;
  decode::Session session(model.program, *model.executor);
  decode::Session::Observer observer;
  observer.window = [&](std::int32_t, std::int32_t count) {
    for (int i = 0; i < count; ++i) trace.logits.push_back(copy(session.logits(i)));
  };
  session.prefill_all(tokens, observer);
  read_cache(model, kTokens, trace);
  return trace;
}

// Rounds of the given widths, over and over.
Trace rounds_of(const Subject& subject, std::vector<int> widths, int threads, int prompt_tokens = 0) {
  Loaded model = subject.load({.context_tokens = 256, .chunk_rows = 1}, threads);
  const auto tokens = random_tokens(model.program.graph->shape.vocab);
  Trace trace;
  trace.logits.resize(kTokens);
  decode::Session session(model.program, *model.executor);
  if (prompt_tokens) session.prefill(std::span(tokens).first(prompt_tokens));
  for (std::size_t round = 0; session.length() < kTokens; ++round) {
    const int first = session.length(), width = std::min(widths[round % widths.size()], kTokens - first);
    session.forward(std::span(tokens).subspan(first, width));
    for (int i = 0; i < width; ++i) trace.logits[first + i] = copy(session.logits(i));
  }
  read_cache(model, kTokens, trace);
  return trace;
}

// Rounds that append wrong tokens first and take them back, at every place.
Trace rounds_with_rollbacks(const Subject& subject) {
  Loaded model = subject.load({.context_tokens = 256});
  const auto tokens = random_tokens(model.program.graph->shape.vocab);
  const int vocab = model.program.graph->shape.vocab;
  Random random(11);
  Trace trace;
  trace.logits.resize(kTokens);
  decode::Session session(model.program, *model.executor);
  while (session.length() < kTokens) {
    const int first = session.length(), width = std::min(1 + random.below(8), kTokens - first);
    const int accepted = 1 + random.below(width);
    std::vector<std::int32_t> row(tokens.begin() + first, tokens.begin() + first + width);
    for (int i = accepted; i < width; ++i) row[i] = random.below(vocab);
    session.forward(row);
    for (int i = 0; i < accepted; ++i) trace.logits[first + i] = copy(session.logits(i));
    session.rollback(first + accepted);
  }
  read_cache(model, kTokens, trace);
  return trace;
}

// Other texts in the cache before, so that rings and garbage beyond the length differ.
Trace after_another_text(const Subject& subject) {
  Loaded model = subject.load({.context_tokens = 256});
  const int vocab = model.program.graph->shape.vocab;
  const auto tokens = random_tokens(vocab);
  decode::Session session(model.program, *model.executor);
  std::vector<std::int32_t> other(250, 5 % vocab);
  session.prefill(other);
  session.rollback(0);
  Trace trace;
  trace.logits.resize(kTokens);
  session.prefill(tokens);
  trace.logits[kTokens - 1] = copy(session.logits());
  read_cache(model, kTokens, trace);
  return trace;
}

const suite<"invariance"> invariance = [] {
  for (const Subject& subject : models())
    boost::ut::test(subject.name() + " gives every token the same bytes on every path") = [subject] {
      const Trace plain = rounds_of(subject, {1}, 1);
      for (const auto& row : plain.logits) expect(fatal(!row.empty()));
      for (const int chunk : {1, 7, 64, 256})
        expect(plain == prompt_in_chunks(subject, chunk, 1)) << "prompt in chunks of " << chunk;
      for (int width = 2; width <= 8; ++width) expect(plain == rounds_of(subject, {width}, 1)) << "rounds of " << width;
      expect(plain == rounds_of(subject, {3, 1, 8, 2, 5}, 1)) << "rounds of changing width";
      expect(plain == rounds_of(subject, {1}, 2)) << "two threads";
      expect(plain == rounds_of(subject, {8, 5}, 3)) << "three threads";
      expect(plain == prompt_in_chunks(subject, 64, 2)) << "prompt on two threads";
      expect(plain == rounds_of(subject, {4}, 1, 77)) << "a prompt, then rounds";
      expect(plain == rounds_with_rollbacks(subject)) << "rollbacks";
      expect(plain == after_another_text(subject)) << "a cache used before";
    };

  for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast})
  boost::ut::test(Subject{"pebble", numeric}.name() + " gives every token the same bytes in chunks, rounds and after rollbacks") = [numeric] {
    const Subject subject{kRoot + "/models/pebble", numeric};
    const Trace plain = rounds_of(subject, {8, 3}, 2);
    expect(plain == prompt_in_chunks(subject, 64, 2)) << "prompt in chunks";
    if (kSlowBuild) return;
    expect(plain == rounds_of(subject, {1}, 1)) << "one by one";
    expect(plain == rounds_with_rollbacks(subject)) << "rollbacks";
  };

  "a long text gives every token the same bytes on one thread and on five, which share its attention"_test = [] {
    const Subject subject{kFixtures + "/models/dense-4bit", link::Numeric::fast};
    const int prompt = kSlowBuild ? 400 : 2300, count = prompt + 3;
    std::vector<std::vector<float>> logits[2];
    for (const int five : {0, 1}) {
      Loaded model = subject.load({.context_tokens = count + 1}, five ? 5 : 1);
      const auto tokens = random_tokens(model.program.graph->shape.vocab, count);
      decode::Session session(model.program, *model.executor);
      session.prefill(std::span(tokens).first(prompt));
      for (int i = prompt; i < count; ++i) {
        session.forward(std::span(tokens).subspan(i, 1));
        logits[five].push_back(copy(session.logits()));
      }
    }
    for (int i = 0; i < 3; ++i) expect(Trace::same(logits[0][i], logits[1][i]));
  };

  "a different token changes the bytes"_test = [] {  // the comparison above can fail
    Loaded model(kFixtures + "/models/dense-bf16", {.context_tokens = 256});
    auto tokens = random_tokens(256);
    decode::Session session(model.program, *model.executor);
    session.prefill(tokens);
    const auto logits = copy(session.logits());
    session.rollback(0);
    tokens[kTokens - 20] ^= 1;
    session.prefill(tokens);
    expect(!Trace::same(logits, copy(session.logits())));
  };

  "two sessions in one backend do not see each other"_test = [] {
    Loaded model(kFixtures + "/models/moe-bf16", {.context_tokens = 128, .sessions = 2});
    const auto tokens = random_tokens(256, 100);
    decode::Session first(model.program, *model.executor, 0), second(model.program, *model.executor, 1);
    first.prefill(tokens);
    const auto alone = copy(first.logits());
    second.prefill(std::span(tokens).first(50));
    first.rollback(99);
    first.forward(std::span(tokens).last(1));
    expect(Trace::same(alone, copy(first.logits())));
    second.rollback(0);
    second.prefill(tokens);
    expect(Trace::same(alone, copy(second.logits())));
  };
};

const suite<"session"> session_limits = [] {
  "a prompt longer than the context or with unknown ids is refused and leaves the session as it was"_test = [] {
    Loaded model(kFixtures + "/models/dense-bf16", {.context_tokens = 10});
    decode::Session session(model.program, *model.executor);
    session.prefill(std::vector<std::int32_t>{5, 6, 7});
    expect(outcome_of([&] { session.prefill(std::vector<std::int32_t>(8, 4)); }) == "usage");
    expect(outcome_of([&] { session.prefill(std::vector<std::int32_t>{4, 256}); }) == "usage");
    expect(outcome_of([&] { session.forward(std::vector<std::int32_t>{-1}); }) == "usage");
    expect(outcome_of([&] { session.prefill({}); }) == "usage");
    expect(session.length() == 3_i);
    expect(outcome_of([&] { session.prefill(std::vector<std::int32_t>(7, 4)); }) == "ok");
  };
};

}  // namespace
}  // namespace lapidary::test::invariance_test
