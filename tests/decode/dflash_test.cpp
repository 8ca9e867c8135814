// The DFlash drafter against its golden data, on any backend: context, states and logits of blocks, recorded rounds of every pair. A
// software device is slow: on a GPU the rounds of two pairs are enough, of the longest prompt; with LAPIDARY_FULL in the environment all.
#include <boost/ut.hpp>

#include <algorithm>
#include <cmath>

#include "decode/generate.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"
#include "support/random.hpp"
#include "support/slow_device.hpp"

namespace lapidary::test::dflash_test {
namespace {

using namespace boost::ut;
using graph::Op;
using graph::RowSet;

constexpr float kLogitsTolerance = 0.002f;     // as fixtures/dflash/README.md recommends
constexpr float kRelativeTolerance = 0.0001f;  // of the largest value of a tensor

bool is_cpu() { return link::backends().front()->name == "cpu"; }

float largest(std::span<const float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

bool close(std::span<const float> ours, std::span<const float> expected, float tolerance) {
  return std::ranges::equal(ours, expected, [&](float a, float b) { return std::abs(a - b) <= tolerance; });
}
bool close(std::span<const float> ours, std::span<const float> expected) {
  return close(ours, expected, kRelativeTolerance * largest(expected));
}

// What the steps of the drafter left behind, row after row.
struct Trace {
  const graph::DFlashShape& shape;
  std::vector<float> context{}, embedded{}, final_norm{}, logits{};
  std::vector<std::vector<float>> layers = std::vector<std::vector<float>>(static_cast<std::size_t>(shape.layer_count));

  void see(const link::StepResult& result, const graph::Graph& graph) {
    const graph::Step& step = result.step;
    const auto append = [&](std::vector<float>& to, std::size_t out, std::size_t first = 0) {
      for (std::size_t r = first; r < result.rows; ++r) {
        const float* row = result.out[out].floats(r);
        to.insert(to.end(), row, row + result.out[out].row_bytes / sizeof(float));
      }
    };
    const auto weight = [&](std::size_t i) { return step.weights[i] == graph::kNone ? "" : graph.weights[step.weights[i]].name; };
    if (step.op == Op::rms_norm && weight(0) == "hidden_norm.weight") append(context, 0);
    if (step.rows != RowSet::block) return;
    if (step.op == Op::embed) append(embedded, 0);
    if (step.op == Op::linear_softcap) append(logits, 0, 1);
    if (step.op != Op::add_norm) return;
    if (weight(0) == "norm.weight") append(final_norm, 1);
    if (!weight(0).ends_with("post_attention_layernorm.weight")) append(layers[static_cast<std::size_t>(step.layer)], 0);
  }
};

struct RecordedRound {
  std::int32_t committed, bonus, next;
  int rows, accepted;
  std::vector<std::int32_t> drafts;
};

struct RecordedRun {
  std::string name;
  bool sampled;
  std::vector<RecordedRound> rounds{};
};

struct RecordedPrompt {
  std::vector<std::int32_t> ids, greedy, sampled;
  graph::Sampling sampling;
  std::int32_t context_from;
  std::vector<RecordedRun> runs;  // that this engine has enough rows for
};

std::vector<std::int32_t> numbers_of(simdjson::dom::element list) {
  std::vector<std::int32_t> numbers;
  for (const std::int64_t number : list.get_array()) numbers.push_back(static_cast<std::int32_t>(number));
  return numbers;
}

std::vector<RecordedPrompt> recorded_prompts(const std::string& folder) {
  simdjson::dom::parser parser;
  std::vector<RecordedPrompt> prompts;
  for (const simdjson::dom::element entry : parser.load(folder + "/rounds.json")["prompts"].get_array()) {
    const auto sampling = entry["sampling"];
    RecordedPrompt& prompt = prompts.emplace_back();
    prompt.ids = numbers_of(entry["input_ids"]);
    prompt.greedy = numbers_of(entry["greedy"]);
    prompt.sampled = numbers_of(entry["sampled"]);
    prompt.sampling = {.temperature = static_cast<float>(double(sampling["temperature"])),
                       .top_k = static_cast<std::int32_t>(std::int64_t(sampling["top_k"])),
                       .top_p = static_cast<float>(double(sampling["top_p"])),
                       .seed = std::stoull(std::string(sampling["seed"]))};
    prompt.context_from = static_cast<std::int32_t>(std::int64_t(entry["context_from"]));
    for (const auto& [name, run] : entry["runs"].get_object()) {
      RecordedRun recorded{.name = std::string(name), .sampled = name.starts_with("sampled")};
      bool fits = true;
      for (const simdjson::dom::element round : run["rounds"].get_array()) {
        const auto number = [&](const char* key) { return static_cast<std::int32_t>(std::int64_t(round[key])); };
        recorded.rounds.push_back({number("committed"), number("bonus"), number("next"), number("rows"), number("accepted"),
                                   numbers_of(round["drafts"])});
        fits = fits && recorded.rounds.back().rows <= graph::kMaxVerifyRows;
      }
      if (fits) prompt.runs.push_back(std::move(recorded));
    }
  }
  return prompts;
}

struct DFlashPair {
  std::string name, target, dflash;
};

std::vector<DFlashPair> dflash_pairs() {
  std::vector<DFlashPair> pairs;
  for (const std::string name : {"dense-bf16", "moe-4bit", "moe-bf16", "ple-bf16", "unified-bf16"})
    pairs.push_back({name, kFixtures + "/models/" + name, kFixtures + "/dflash/" + name});
  return pairs;
}

const suite<"dflash values"> values = [] {
  for (const DFlashPair& pair : dflash_pairs())
    boost::ut::test("context and blocks of " + pair.name) = [pair] {
      const Expected expected(pair.dflash + "/expected.safetensors.xz");
      const RecordedPrompt prompt = recorded_prompts(pair.dflash)[2];
      for (const int chunk : {0, 24}) {
        Loaded model(pair.target, {.context_tokens = 256, .chunk_rows = chunk}, 1, "", pair.dflash);
        const graph::Graph& graph = *model.program.graph;
        const graph::DFlashShape& shape = *graph.dflash;
        for (const int block : {8, 5}) {
          Trace trace{shape};
          decode::Session session(model.program, *model.executor);
          const link::StepObserver observe = [&](const link::StepResult& result) { trace.see(result, graph); };
          session.prefill_all(prompt.ids, {.chunk = {}, .step = observe, .window = {}});
          expect(session.next() == prompt.greedy[0]);
          expect(close(trace.context, expected.floats("prompt2.context"))) << pair.name;
          for (int l = 0; l < shape.layer_count; ++l) {
            if (chunk && shape.layers[static_cast<std::size_t>(l)].kind == graph::LayerKind::sliding) continue;  // its ring has wrapped
            std::vector<float> keys, values;
            std::vector<float> key(static_cast<std::size_t>(shape.head_dim)), value(key.size());
            for (int head = 0; head < shape.kv_heads; ++head)
              for (int position = 0; position < session.length(); ++position) {
                model.executor->read_kv(0, graph.shape.layer_count + l, head, position, key, value);
                keys.insert(keys.end(), key.begin(), key.end());
                values.insert(values.end(), value.begin(), value.end());
              }
            expect(close(keys, expected.floats("prompt2.k" + std::to_string(l)))) << pair.name << l;
            expect(close(values, expected.floats("prompt2.v" + std::to_string(l)))) << pair.name << l;
          }
          expect(fatal(session.begin_round({.count = block - 1, .block = true}, nullptr, {.prune = {}, .fill = {}, .cancel = nullptr, .observe = &observe})));
          session.end_round();
          const std::string at = "prompt2.block" + std::to_string(block) + ".";
          expect(close(trace.embedded, expected.floats(at + "embedded"))) << pair.name;
          for (int l = 0; l < shape.layer_count; ++l)
            expect(close(trace.layers[static_cast<std::size_t>(l)], expected.floats(at + "layer" + std::to_string(l)))) << pair.name << l;
          expect(close(trace.final_norm, expected.floats(at + "final_norm"))) << pair.name;
          expect(close(trace.logits, expected.floats(at + "logits"), kLogitsTolerance)) << pair.name;
        }
      }
    };
};

const suite<"dflash rounds"> rounds = [] {
  for (const DFlashPair& pair : dflash_pairs()) {
    if (is_slow_device() && pair.name != "dense-bf16" && pair.name != "moe-4bit") continue;
    boost::ut::test("recorded rounds of the block drafter of " + pair.name) = [pair] {
      const Expected expected(pair.dflash + "/expected.safetensors.xz");
      const std::vector<RecordedPrompt> prompts = recorded_prompts(pair.dflash);
      Loaded model(pair.target, {.context_tokens = 256, .chunk_rows = 24}, 2, "", pair.dflash);
      std::size_t played = 0;
      for (std::size_t p = is_slow_device() ? 2 : 0; p < prompts.size(); ++p)
        for (const RecordedRun& run : prompts[p].runs) {
          const RecordedPrompt& prompt = prompts[p];
          const std::string where = pair.name + " prompt" + std::to_string(p) + "." + run.name;
          const bool has_logits = p == 2 && run.name.ends_with("mixed");  // recorded
          Trace trace{*model.program.graph->dflash};
          const link::StepObserver observe = [&](const link::StepResult& result) { trace.see(result, *model.program.graph); };
          const graph::Request request{.sampling = run.sampled ? prompt.sampling : graph::Sampling{}};
          decode::Session session(model.program, *model.executor);
          session.prefill(prompt.ids, &request);
          if (run.name.starts_with("blind")) session.memory().marks->context_begin = prompt.context_from;
          std::vector<std::int32_t> stream = {session.next()};
          for (const RecordedRound& round : run.rounds) {
            std::vector<std::int32_t> drafts;
            decode::Session::RoundHooks hooks;
            if (has_logits) hooks.observe = &observe;
            hooks.prune = [&](std::span<const std::int32_t> made) {
              drafts.assign(made.begin(), made.end());
              return static_cast<int>(made.size());
            };
            hooks.fill = [] {};
            expect(fatal(session.length() == round.committed)) << where;
            expect(stream.back() == round.bonus) << where;
            expect(fatal(session.begin_round({.count = round.rows - 1, .block = round.rows > 1}, &request, hooks)));
            const decode::Session::Round result = session.end_round();
            expect(drafts == round.drafts) << where << "committed" << round.committed;
            expect(result.report.result.accepted == round.accepted && session.next(round.accepted) == round.next) << where;
            const auto chosen = result.report.result.chosen();
            stream.insert(stream.end(), chosen.begin(), chosen.end());
          }
          const auto& whole = run.sampled ? prompt.sampled : prompt.greedy;
          expect(fatal(stream.size() >= whole.size()));
          stream.resize(whole.size());
          expect(stream == whole) << where;
          if (has_logits)
            expect(close(trace.logits, expected.floats("prompt2." + run.name + ".logits"), kLogitsTolerance)) << where;
          ++played;
        }
      expect(played >= (is_slow_device() ? 5u : 15u)) << pair.name;
    };
  }
};

// K and V that the drafter has of a position.
std::vector<float> context_at(const Loaded& model, int slot, std::int32_t position) {
  const graph::Graph& graph = *model.program.graph;
  std::vector<float> all, key(static_cast<std::size_t>(graph.dflash->head_dim)), value(key.size());
  for (int l = 0; l < graph.dflash->layer_count; ++l)
    for (int head = 0; head < graph.dflash->kv_heads; ++head) {
      model.executor->read_kv(slot, graph.shape.layer_count + l, head, position, key, value);
      all.insert(all.end(), key.begin(), key.end());
      all.insert(all.end(), value.begin(), value.end());
    }
  return all;
}

// Where rows of prompts and of rounds are alike.
const suite<"dflash context"> context = [] {
  if (!is_cpu()) return;
  for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast})
    boost::ut::test(std::string("whatever came between, text and context are as from one prompt, in the ") + std::string(name_of(numeric)) + " mode") = [numeric] {
      const Pair pair = fixture_pairs().front();
      constexpr std::int32_t kContext = 400;
      Loaded model(pair.target, {.context_tokens = kContext, .chunk_rows = 16, .sessions = 3, .numeric = numeric}, 2, pair.assistant, pair.dflash);
      Random random(23);
      std::vector<std::int32_t> text;  // the prompt, and what is greedily chosen after it
      for (int i = 0; i < 30; ++i) text.push_back(4 + random.below(240));
      decode::Session plain(model.program, *model.executor, 2);
      plain.prefill(text);
      for (const std::int32_t token : decode::greedy(plain, kContext - 40)) text.push_back(token);

      decode::Session first(model.program, *model.executor, 0), second(model.program, *model.executor, 1);
      decode::Session* session = &first;
      const auto read_to = [&](std::int32_t length) {
        session->prefill(std::span(text).subspan(static_cast<std::size_t>(session->length()), static_cast<std::size_t>(length - session->length())));
      };
      read_to(30);
      int rounds = 0, compared = 0;
      for (int action = 0; action < 400; ++action) {
        if (session->length() > kContext - 60) {
          session->rollback(0);
          read_to(20 + random.below(60));
        }
        switch (random.below(12)) {
          case 0: {  // goes back, and on with a prompt
            const std::int32_t to = session->length() - random.below(20);
            if (!session->can_rollback(to)) break;
            session->rollback(to);
            read_to(to + 1 + random.below(30));
            break;
          }
          case 1:
            read_to(session->length() + 1 + random.below(40));
            break;
          case 2: {  // goes on in another session
            decode::Session& other = session == &first ? second : first;
            other.copy(*session, session->length());
            session = &other;
            break;
          }
          case 3: {
            const link::SlotMarks marks = *session->memory().marks;
            expect(eq(marks.context_end, session->length()));
            decode::Session fresh(model.program, *model.executor, 2);
            fresh.prefill(session->tokens());
            const int seen = model.program.graph->dflash->window;
            for (std::int32_t p = std::max(marks.context_begin, session->length() - seen + 1); p < session->length(); ++p, ++compared)
              expect(context_at(model, session == &first ? 0 : 1, p) == context_at(model, 2, p)) << "position" << p << "action" << action;
            break;
          }
          default: {
            const int kind = random.below(3), k = kind == 0 ? 0 : 1 + random.below(7);
            expect(fatal(session->begin_round({.count = k, .block = kind == 1 && k > 0}, nullptr, {})));
            session->end_round();
            ++rounds;
          }
        }
        expect(fatal(std::ranges::equal(session->tokens(), std::span(text).first(static_cast<std::size_t>(session->length()))))) << action;
      }
      expect(rounds > 150 && compared > 150) << rounds << compared;
    };
};

}  // namespace
}  // namespace lapidary::test::dflash_test
